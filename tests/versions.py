"""Read the table of tested versions, `tool.keras_norm.versions` of pyproject.toml.

Makefile and workflow run this file; it imports only the standard library.

    python tests/versions.py                 names of the rows
    python tests/versions.py lowest python   the command of the row's Python, such as python3.11
    python tests/versions.py lowest pip      the row's requirements for pip
    python tests/versions.py matrix          the matrix of the workflow, as JSON
"""

import json
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSIONS = PYPROJECT["tool"]["keras_norm"]["versions"]
PACKAGES = ("tensorflow", "keras")


def requirements(name: str) -> list[str]:
    """Return the requirements of a row for pip, the project with the packages of its tests first.

    Args:
        name: key of `VERSIONS`.
    """
    row = VERSIONS[name]
    return [f".[{row['extra']}]", *(f"{package}=={row[package]}" for package in PACKAGES)]


def main(*arguments: str) -> str:
    """Return the text that the command line asks for; see the docstring of this module."""
    match arguments:
        case ():
            return " ".join(VERSIONS)
        case ("matrix",):
            rows = [{"name": name, "python": row["python"]} for name, row in VERSIONS.items()]
            return json.dumps({"include": rows})
        case (name, "python"):
            return f"python{VERSIONS[name]['python']}"
        case (name, "pip"):
            return " ".join(requirements(name))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
