"""Imports run one way (design.md, section 2), and TensorFlow stays where it is named."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# What a part may import besides itself; `rnn`'s list holds all of `layers`', and so on.
ORDER = ["ops", "layers", "rnn", "recalibrate and compat", "export", "examples"]

# Modules below export that need TensorFlow itself, whatever the backend.
TENSORFLOW = {
    "keras_norm.keras_internals",
    "keras_norm.ops.kernels",
    "keras_norm.ops.replicas",
    "keras_norm.ops.tensorflow_batch_norm",
    "keras_norm.ops.tensorflow_scan",
    "keras_norm.recalibrate",
    "keras_norm.rnn.gradient.backward",
    "keras_norm.rnn.gradient.cells",
    "keras_norm.rnn.gradient.forward",
    "keras_norm.rnn.gradient.norms",
    "keras_norm.rnn.gradient.of_cell",
    "keras_norm.rnn.gradient.products",
    "keras_norm.rnn.gradient.programs",
    "keras_norm.rnn.gradient.recurrence",
}


def module_name(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "export":
        parts.insert(0, "keras_norm")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for folder in ("keras_norm", "export", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def rank(module):
    """The place in ORDER; None for the package itself, its version, and what is not ours."""
    parts = module.split(".")
    if parts[0] == "examples":
        return ORDER.index("examples")
    if parts[0] != "keras_norm" or len(parts) == 1:
        return None
    if parts[1] == "keras_internals":
        return ORDER.index("ops")
    if parts[1] in ("recalibrate", "compat", "clone", "walk"):
        return ORDER.index("recalibrate and compat")
    return ORDER.index(parts[1]) if parts[1] in ORDER else None


def imported(module):
    """All that a module imports, those inside functions among them, as full names."""
    path = MODULES[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: siblings are imported absolutely"
            # `from a import b` imports a, and b where that is a module.
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def within(name, *packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("module", MODULES)
def test_no_import_runs_back(module):
    own = rank(module)
    if own is None:
        return
    back = {name for name in imported(module) if (rank(name) or 0) > own}
    assert not back


@pytest.mark.parametrize("module", [m for m in MODULES if rank(m) in range(5)])
def test_parts_import_each_other_and_not_the_package(module):
    """`import keras_norm` below it would run back through its re-exports."""
    names = {name for name in imported(module) if within(name, "keras_norm")}
    public = {name for name in names if rank(name) is None and name != "keras_norm.version"}
    if rank(module) < ORDER.index("export"):
        assert not public


@pytest.mark.parametrize("module", MODULES)
def test_no_import_of_keras_internals(module):
    assert not [name for name in imported(module) if within(name, "keras.src")]


@pytest.mark.parametrize("module", MODULES)
def test_export_is_imported_under_one_name(module):
    """A second identity would register every class twice."""
    assert not [name for name in imported(module) if within(name, "export")]


@pytest.mark.parametrize("module", [m for m in MODULES if (rank(m) or 0) < ORDER.index("export")])
def test_tensorflow_is_imported_where_it_is_named(module):
    uses = any(within(name, "tensorflow") for name in imported(module))
    assert uses == (module in TENSORFLOW)


def test_reader_sees_imports_inside_functions():
    assert "keras_norm.ops.tensorflow_scan" in imported("keras_norm.ops.scan")


def test_every_part_was_found():
    assert {rank(module) for module in MODULES} >= {0, 1, 2, 4}
    assert set(MODULES) > TENSORFLOW
