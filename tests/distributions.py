"""Install the wheel and the sdist in empty environments, and use them: `make dist-test`.

The commands run in an empty folder: the code of the README, the command line, and, for the sdist,
the tests of the layers that it contains.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import venv

# The variables that the code of the README reads.
DATA = """
import numpy as np
rng = np.random.default_rng(0)
x_train = x_test = rng.normal(size=(16, 6, 8)).astype("float32")
y_train = rng.integers(0, 10, 16)
"""
USE_MODEL = """
assert "site-packages" in keras_norm.__file__, keras_norm.__file__
model.save("model.keras")
np.save("x.npy", x_test)
dense = {"weight": np.ones((10, 64)), "bias": np.ones(10)}
keras_norm.compat.load_torch_weights(model.layers[-1], dense)
"""
COMMANDS = (
    ("--version",),
    ("verify", "served"),
    ("verify", "model.tflite"),
    ("check", "model.keras", "served", "model.tflite", "--data", "x.npy"),
)


def main() -> int:
    """Test each distribution of a folder; return 0 if all commands succeed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="folder of one wheel and one sdist")
    folder = parser.parse_args().folder.resolve()
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for file in (wheel, sdist):
        with tempfile.TemporaryDirectory() as temporary:
            _try(file, pathlib.Path(temporary))
        print(f"{file.name}: installed, and works", flush=True)
    return 0


def _try(file: pathlib.Path, folder: pathlib.Path) -> None:
    """Install a distribution in a new environment, and use it in an empty folder."""
    environment, empty = folder / "environment", folder / "empty"
    venv.create(environment, with_pip=True)
    empty.mkdir()
    python = environment / "bin" / "python"
    is_sdist = file.name.endswith(".tar.gz")
    packages = ["pytest", "pytest-xdist"] if is_sdist else []
    _run(empty, python, "-m", "pip", "install", "--quiet", f"{file}[tflite]", *packages)
    readme = (pathlib.Path(__file__).parents[1] / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    _run(empty, python, "-c", DATA + code + USE_MODEL)
    for arguments in COMMANDS:
        _run(empty, environment / "bin" / "keras-norm", *arguments)
    if is_sdist:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
        (root,) = folder.glob("keras_norm-*")
        _run(root, python, "-m", "pytest", "--quiet", "-m", "not slow", "tests/layers", "tests/ops")


def _run(folder: pathlib.Path, *command: str | pathlib.Path) -> None:
    # No other copy of the package may be found.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
        sys.exit(f"{' '.join(map(str, command))[:200]} failed with status {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
