"""Install the wheel and the sdist in empty environments, and use them: `make dist-test`.

The code of the README and the command line run in an empty folder, and in the root of the sources,
which has packages of equal names. The tests of the layers in the sdist run too. The description in
both files must have no relative link, because a package index shows it without the repository.
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
import zipfile

# The variables that the code of the README reads.
DATA = """
import numpy as np
rng = np.random.default_rng(0)
x_train = x_test = rng.normal(size=(16, 6, 8)).astype("float32")
y_train = rng.integers(0, 10, 16)
"""
USE_MODEL = """
model.save("model.keras")
np.save("x.npy", x_test)
dense = {"weight": np.ones((10, 64)), "bias": np.ones(10)}
keras_norm.compat.load_torch_weights(model.layers[-1], dense)
"""
IS_INSTALLED = """
assert "site-packages" in keras_norm.__file__, keras_norm.__file__
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
        _require_absolute_links(file)
        with tempfile.TemporaryDirectory() as temporary:
            _try(file, sdist, pathlib.Path(temporary))
        print(f"{file.name}: installed, and works", flush=True)
    return 0


def _require_absolute_links(file: pathlib.Path) -> None:
    """Exit with a message if the description of a distribution has a relative link or picture."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
            metadata = wheel.read(name).decode()
    else:
        with tarfile.open(file) as sdist:
            name = f"{file.name.removesuffix('.tar.gz')}/PKG-INFO"
            metadata = sdist.extractfile(name).read().decode()
    _, _, description = metadata.partition("\n\n")
    text = re.sub(r"```.*?```", "", description, flags=re.DOTALL)
    targets = re.findall(r"""(?:\]\(|src="|srcset="|href=")([^)\s"]+)""", text)
    relative = [target for target in targets if not target.startswith(("https://", "#"))]
    if relative or not targets:
        sys.exit(f"{file.name}: the description has relative links, or no links: {relative}")


def _try(file: pathlib.Path, sdist: pathlib.Path, folder: pathlib.Path) -> None:
    """Install a distribution in a new environment, and use it in two folders."""
    environment, empty = folder / "environment", folder / "empty"
    venv.create(environment, with_pip=True)
    empty.mkdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.glob("keras_norm-*")
    python = environment / "bin" / "python"
    packages = ["pytest", "pytest-xdist"] if file == sdist else []
    _run(empty, python, "-m", "pip", "install", "--quiet", f"{file}[tflite]", *packages)
    code = "\n".join(
        re.findall(r"```python\n(.*?)```", (root / "README.md").read_text("utf-8"), re.S)
    )
    for place, check in ((empty, IS_INSTALLED), (root, "")):
        _run(place, python, "-c", DATA + code + USE_MODEL + check)
        _run(place, python, "-m", "keras_norm_verify", "model.tflite")
        for arguments in COMMANDS:
            _run(place, environment / "bin" / "keras-norm", *arguments)
    if file == sdist:
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
