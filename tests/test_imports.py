"""Imports run in one direction (docs/design/layout.md); only the listed modules use TensorFlow."""

import ast
import graphlib
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# Packages of export; each imports only the packages before it. Other modules of export come before
# all packages (BASE) or after them.
EXPORT_PACKAGES = ["compare", "runtimes", "golden_cases", "model", "formats", "report", "checks"]
BASE = {"errors", "input_names", "packages", "printable", "results", "signature"}

# Parts of the project. Each part may import the parts before it.
ORDER = ["ops", "layers", "rnn", "recalibration and compat", "export", *EXPORT_PACKAGES]
ORDER += ["normalization_table", "cli", "examples and benchmarks", "experiments"]

BESIDE_RECALIBRATION = {"recalibration", "compat", "clone", "named_layers", "substitution"}
BESIDE_RECALIBRATION |= {"conversion", "time_distributed", "new_figure", "progress"}
BESIDE_RECALIBRATION |= {"statistics_plot"}

# Packages without Keras and TensorFlow, transitively.
NUMPY_ALONE = ["keras_norm.export.compare", "keras_norm.export.results"]

# Modules below export that import TensorFlow.
TENSORFLOW = {
    "keras_norm.compat.keras2_weights",
    "keras_norm.keras_internals",
    "keras_norm.ops.kernels",
    "keras_norm.ops.tensorflow_batch_norm",
    "keras_norm.ops.tensorflow_scan",
    "keras_norm.recalibration.recalibrate",
    "keras_norm.rnn.core.tensorflow_gradient",
    "keras_norm.rnn.core.tensorflow_programs",
}


def module_name(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "export":
        parts.insert(0, "keras_norm")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FOLDERS = ("keras_norm", "keras_norm_cli", "export", "examples", "benchmarks", "experiments")
MODULES = {
    module_name(path): path
    for folder in (
        "keras_norm",
        "keras_norm_cli",
        "export",
        "examples",
        "benchmarks",
        "experiments",
    )
    for path in sorted((ROOT / folder).rglob("*.py"))
}
MODULES["keras_norm_verify"] = ROOT / "keras_norm_verify.py"


def rank(module):
    """Return a module's index in ORDER; None for keras_norm, its version, and other packages."""
    first, *rest = module.split(".")
    if first == "experiments":
        return ORDER.index("experiments")
    if first in ("examples", "benchmarks"):
        return ORDER.index("examples and benchmarks")
    if first == "keras_norm_cli" or (first == "keras_norm" and rest[-1:] == ["__main__"]):
        return ORDER.index("cli")
    if first == "keras_norm_verify":
        return ORDER.index("export")
    if first != "keras_norm" or not rest or rest == ["export"]:
        return None
    if rest[0] in ("keras_internals", "typing"):
        return ORDER.index("ops")
    if rest[0] in BESIDE_RECALIBRATION:
        return ORDER.index("recalibration and compat")
    if rest[0] != "export":
        return ORDER.index(rest[0]) if rest[0] in ORDER else None
    if rest[1] in EXPORT_PACKAGES:
        return ORDER.index(rest[1])
    return ORDER.index("export" if rest[1] in BASE else "normalization_table")


def imported(module):
    """Collect the full names of all imports in a module, also of imports inside functions."""
    path = MODULES[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: siblings are imported absolutely"
            # `from a import b` imports a, and also a.b if b is a module.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_keras_norm_verify_imports_only_numpy_and_the_runtimes():
    others = {name.split(".")[0] for name in imported("keras_norm_verify")}
    assert others - set(sys.stdlib_module_names) == {
        "numpy",
        "ai_edge_litert",
        "onnxruntime",
        "tensorflow",
    }


def within(name, *packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_only_their_own_part_and_earlier_parts(module):
    own = rank(module)
    if own is None:
        return
    later = {name for name in imported(module) if (rank(name) or 0) > own}
    assert not later


def test_imports_have_no_cycle():
    parents = {module: {m for m in MODULES if within(module, m)} for module in MODULES}
    graph = {module: imported(module) & set(MODULES) - parents[module] for module in MODULES}
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("module", [m for m in MODULES if (rank(m) or 99) < ORDER.index("cli")])
def test_modules_do_not_import_keras_norm_itself(module):
    """`import keras_norm` inside the package would import later parts too."""
    names = {name for name in imported(module) if within(name, "keras_norm")}
    public = {name for name in names if rank(name) is None and name != "keras_norm.version"}
    if rank(module) < ORDER.index("export"):
        assert not public


@pytest.mark.parametrize("module", MODULES)
def test_modules_do_not_import_keras_src(module):
    assert not [name for name in imported(module) if within(name, "keras.src")]


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_keras_norm_export_and_not_export(module):
    """A module with two names would register every class twice."""
    assert not [name for name in imported(module) if within(name, "export")]


@pytest.mark.parametrize("module", [m for m in MODULES if (rank(m) or 0) < ORDER.index("export")])
def test_only_the_listed_modules_import_tensorflow(module):
    uses = any(within(name, "tensorflow") for name in imported(module))
    assert uses == (module in TENSORFLOW)


def reached(module):
    """All that a module imports, directly or through our other modules, as full names."""
    found, pending = set(), [module]
    while pending:
        new = imported(pending.pop()) - found
        found |= new
        # Python also runs the __init__.py of each package. A module does not depend on these files.
        pending += [n for n in new & set(MODULES) if MODULES[n].name != "__init__.py"]
    return found


@pytest.mark.parametrize(
    "module", [m for m in MODULES if within(m, *NUMPY_ALONE) and MODULES[m].name != "__init__.py"]
)
def test_compare_and_results_do_not_import_keras_or_tensorflow(module):
    assert not [n for n in reached(module) if within(n, "keras", "tensorflow")]


@pytest.mark.parametrize(
    "module", [m for m in MODULES if re.search(r"\.formats\.\w+\.(run|convert)_", m)]
)
def test_a_worker_script_imports_nothing_of_the_package(module):
    assert not [n for n in imported(module) if within(n, "keras", "keras_norm")]


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("examples.")])
def test_an_example_has_under_100_lines_and_imports_no_other_example(module):
    """A user copies an example as a single file."""
    assert len(MODULES[module].read_text().splitlines()) < 100
    assert not [name for name in imported(module) if within(name, "examples")]


def test_imports_inside_functions_are_found():
    assert "keras_norm.ops.tensorflow_scan" in imported("keras_norm.ops.scan")


def test_every_part_of_the_import_order_has_modules():
    found = {rank(module) for module in MODULES}
    assert found == {*range(len(ORDER)), None}
    assert set(MODULES) > TENSORFLOW
