"""Imports run in one direction (docs/design/layout.md); only the listed modules use TensorFlow."""

import ast
import functools
import graphlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]

# Parts of the project, each with the modules and packages that belong to it. A module belongs to
# the longest of these names that contains it, and imports only its own and earlier parts.
PARTS = [
    "ops keras_internals typing",
    "layers",
    "rnn",
    "recalibration compat conversion clone named_layers substitution time_distributed new_figure "
    "packed_sequences progress statistics_plot npz_files",
    "export.errors export.input_names export.packages export.results export.signature",
    "export.compare",
    "export.runtimes",
    "export.model",
    "export.formats",
    "export.report",
    "export.checks",
    "export.normalization_table export.input_sizes",
    "__main__",
]
PARTS = [[f"keras_norm.{name}" for name in part.split()] for part in PARTS]
PARTS[4].append("keras_norm_verify")
PARTS[-1].append("keras_norm_cli")
PARTS += [["examples", "benchmarks"], ["experiments"]]
LIBRARY = 4  # the first part of `keras_norm.export`

# Modules below export that import TensorFlow.
TENSORFLOW = {
    "keras_norm.compat.keras2_weights",
    "keras_norm.keras_internals",
    "keras_norm.ops.leading_padding",
    "keras_norm.ops.tensorflow_batch_norm",
    "keras_norm.ops.tensorflow_replicas",
    "keras_norm.ops.tensorflow_scan",
    "keras_norm.recalibration.compile_run",
    "keras_norm.recalibration.process_group",
    "keras_norm.rnn.core.tensorflow_gradient",
    "keras_norm.rnn.core.tensorflow_programs",
}


def module_name(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "export":
        parts.insert(0, "keras_norm")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FOLDERS = ("keras_norm", "keras_norm_cli", "keras_norm_verify", "export")
FOLDERS += ("examples", "benchmarks", "experiments")
MODULES = {
    module_name(path): path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))
}


def within(name, *packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def rank(module):
    """Return the index of a module's part; None for `keras_norm` itself and other packages."""
    found = [(len(p), k) for k, part in enumerate(PARTS) for p in part if within(module, p)]
    return max(found)[1] if found else None


@functools.cache
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


def reached(module):
    """All that a module imports, directly or through our other modules, as full names."""
    found, pending = set(), [module]
    while pending:
        new = imported(pending.pop()) - found
        found |= new
        # Python also runs the __init__.py of each package. A module does not depend on these files.
        pending += [n for n in new & set(MODULES) if MODULES[n].name != "__init__.py"]
    return found


def find_imports(modules, *packages):
    """List the imports of some packages in some modules, as (module, imported name)."""
    return [(m, name) for m in modules for name in imported(m) if within(name, *packages)]


def test_modules_import_only_their_own_part_and_earlier_parts():
    ranked = {module: rank(module) for module in MODULES}
    later = [
        (module, name)
        for module, own in ranked.items()
        for name in (() if own is None else imported(module))
        if (rank(name) or 0) > own
    ]
    assert not later
    assert set(ranked.values()) == {*range(len(PARTS)), None}


def test_imports_have_no_cycle():
    parents = {module: {m for m in MODULES if within(module, m)} for module in MODULES}
    graph = {module: imported(module) & set(MODULES) - parents[module] for module in MODULES}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_modules_do_not_import_the_public_names_of_the_package():
    """`import keras_norm` inside the package would import later parts too."""
    below = [module for module in MODULES if (rank(module) or 0) < LIBRARY and rank(module)]
    names = find_imports(below, "keras_norm")
    assert not [(m, n) for m, n in names if rank(n) is None and n != "keras_norm.version"]


def test_the_package_imports_export_at_its_first_use_only():
    assert not find_imports(["keras_norm"], "keras_norm.export")


def test_modules_import_neither_keras_src_nor_export_under_a_second_name():
    """A module with two names would register every class twice."""
    assert not find_imports(MODULES, "keras.src", "export")


def test_only_the_listed_modules_below_export_import_tensorflow():
    below = [module for module in MODULES if (rank(module) or 0) < LIBRARY]
    assert {module for module, _ in find_imports(below, "tensorflow")} == TENSORFLOW


def test_compare_and_results_do_not_import_keras_or_tensorflow():
    for module, path in MODULES.items():
        alone = within(module, "keras_norm.export.compare", "keras_norm.export.results")
        if alone and path.name != "__init__.py":
            assert not [n for n in reached(module) if within(n, "keras", "tensorflow")], module


def test_a_worker_script_imports_nothing_of_the_package():
    scripts = [m for m in MODULES if re.search(r"\.formats\.\w+\.(run|convert)_", m)]
    assert not find_imports(scripts, "keras", "keras_norm")


def test_keras_norm_verify_imports_only_numpy_and_the_runtimes():
    modules = [module for module in MODULES if within(module, "keras_norm_verify")]
    others = {name.split(".")[0] for module in modules for name in imported(module)}
    others -= {"keras_norm_verify"}
    runtimes = {"ai_edge_litert", "onnxruntime", "tensorflow"}
    assert others - set(sys.stdlib_module_names) == {"numpy", *runtimes}


def test_an_example_has_under_100_lines_and_imports_no_other_example():
    """A user copies an example as a single file."""
    examples = [module for module in MODULES if module.startswith("examples.")]
    assert [m for m in examples if len(MODULES[m].read_text().splitlines()) >= 100] == []
    assert not find_imports(examples, "examples")
