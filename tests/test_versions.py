"""The table of versions in pyproject.toml agrees with the requirements, pages and package."""

import json
import pathlib
import re

import keras
import pytest
import tensorflow as tf

from keras_norm import keras_internals
from tests import versions
from tests.versions import PYPROJECT, VERSIONS

ROOT = pathlib.Path(__file__).parents[1]


def number(version):
    """Return (major, minor) of a version such as "3.15.1"."""
    return tuple(map(int, version.split(".")[:2]))


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_the_lowest_row_has_the_lower_bounds_and_nothing_has_an_upper_bound(package):
    (requirement,) = [
        r for r in PYPROJECT["project"]["dependencies"] if re.match(rf"{package}\W", r)
    ]
    assert requirement == f"{package}>={VERSIONS['lowest'][package]}"
    found = [tuple(map(int, row[package].split("."))) for row in VERSIONS.values()]
    assert found == sorted(found)


def test_the_rows_have_every_supported_version_of_python():
    prefix = "Programming Language :: Python :: "
    classifiers = PYPROJECT["project"]["classifiers"]
    supported = [c.removeprefix(prefix) for c in classifiers if c.startswith(prefix)]
    assert [row["python"] for row in VERSIONS.values()] == supported


def test_the_package_warns_of_versions_after_the_newest_row():
    newest = {name: number(VERSIONS["newest"][name]) for name in versions.PACKAGES}
    assert newest == keras_internals.TESTED


def test_the_page_of_versions_has_the_rows():
    text = (ROOT / "docs" / "about" / "versions.md").read_text()
    cells = re.findall(r"^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", text, re.M)
    rows = [(n, r["python"], r["tensorflow"], r["keras"]) for n, r in VERSIONS.items()]
    assert [row for row in cells if row[0] in VERSIONS] == rows


def test_the_workflow_has_the_rows():
    matrix = json.loads(versions.main("matrix"))["include"]
    assert matrix == [{"name": n, "python": row["python"]} for n, row in VERSIONS.items()]
    workflow = (ROOT / ".github" / "workflows" / "versions.yml").read_text()
    assert "$(python tests/versions.py matrix)" in workflow
    assert "make test-versions VERSIONS=${{ matrix.name }}" in workflow


def test_pip_installs_the_versions_of_a_row():
    row = VERSIONS["lowest"]
    pins = f"tensorflow=={row['tensorflow']} keras=={row['keras']}"
    assert versions.main("lowest", "pip") == f".[{row['extra']}] {pins}"
    assert versions.main("lowest", "python") == f"python{row['python']}"


def test_one_warning_names_the_untested_versions_and_the_newest_tested(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.99.0.dev2026")
    monkeypatch.setattr(tf, "__version__", "2.99.0rc0")
    with pytest.warns(UserWarning, match="last tested") as caught:
        keras_internals.warn_of_untested_versions()
    (warning,) = caught
    tested = keras_internals.TESTED
    newest = " and ".join(f"{name} {'.'.join(map(str, v))}" for name, v in tested.items())
    assert str(warning.message).startswith(
        f"keras_norm was last tested with {newest}. "
        "Received keras 3.99.0.dev2026 and tensorflow 2.99.0rc0."
    )


@pytest.mark.filterwarnings("error")
def test_a_later_patch_gives_no_warning(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.15.99")
    monkeypatch.setattr(tf, "__version__", VERSIONS["lowest"]["tensorflow"])
    keras_internals.warn_of_untested_versions()
