"""The installed package has every folder of the sources, and imports `export` at its first use."""

import importlib
import pathlib
import subprocess
import sys
import tomllib

import pytest

import keras_norm

ROOT = pathlib.Path(__file__).parents[1]
OPTIONAL = ["ai_edge_litert", "onnx", "onnxruntime", "openvino", "tensorflow_serving", "tf2onnx"]
OPTIONAL += ["grpc", "jinja2", "matplotlib", "PIL"]

# The sources in the working directory are imported, without the finder of an editable install.
PROGRAM = f"""
import sys, warnings
sys.modules.update(dict.fromkeys({OPTIONAL}))
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in repr(finder)]
import keras
before, installed = set(sys.modules), keras.__version__
keras.__version__ = "3.99.0.dev1"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import keras_norm
keras.__version__ = installed
(warning,) = [str(w.message) for w in caught if "tested" in str(w.message)]
assert "Received keras 3.99.0.dev1" in warning, warning
new = set(sys.modules) - before
assert not [n for n in new if n.startswith(("keras_norm.export", "tensorflow.lite"))], new
assert "export" in dir(keras_norm) and "LayerNormLSTM" in dir(keras_norm)
assert "export" not in vars(keras_norm)
assert keras_norm.export.check and keras_norm.export is sys.modules["keras_norm.export"]
from keras_norm import export
assert export is keras_norm.export
print(keras_norm.__file__, export.__file__)
"""


def test_every_folder_of_the_sources_is_an_installed_package():
    """An editable install, as for these tests, works also without the names in the list."""
    folders = [
        file.parent.relative_to(ROOT).parts
        for top in ("keras_norm", "keras_norm_cli", "keras_norm_verify", "export")
        for file in (ROOT / top).rglob("__init__.py")
    ]
    names = {".".join(("keras_norm", *f) if f[0] == "export" else f) for f in folders}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == names


@pytest.mark.slow
def test_export_is_imported_at_its_first_use_from_the_sources_in_the_working_directory():
    """It needs no optional package. A later version of Keras gives one warning.

    Python finds the sources in the root of a clone before the installed package.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    expected = [str(ROOT / folder / "__init__.py") for folder in ("keras_norm", "export")]
    assert done.stdout.split() == expected, done.stderr


@pytest.mark.parametrize("missing", ["rich", "keras_norm.export"])
def test_a_missing_requirement_of_export_is_named_with_the_command_that_installs_it(
    missing, monkeypatch
):
    def fail(name):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.delattr(keras_norm, "export", raising=False)
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="pip install") as refusal:
        keras_norm.export  # noqa: B018
    assert f"cannot be imported: No module named {missing!r}" in str(refusal.value)
    assert refusal.value.name == missing


def test_an_unknown_attribute_of_the_package_raises():
    with pytest.raises(AttributeError, match="'keras_norm' has no attribute 'exports'"):
        keras_norm.exports  # noqa: B018
