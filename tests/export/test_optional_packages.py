import pathlib
import tomllib

import pytest

from keras_norm.export import optional_packages as extras

PYPROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def table(monkeypatch):
    """An extra of which one part is there, and another is not."""
    monkeypatch.setitem(extras.EXTRAS, "half", ("Halves need", ("json", "no_such_module")))
    monkeypatch.setitem(extras.EXTRAS, "whole", ("Wholes need", ("json", "ast")))


def test_extras_are_those_of_the_installation():
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert set(extras.EXTRAS) <= set(project["optional-dependencies"])


def test_an_extra_is_installed_with_all_its_parts(table):
    assert extras.is_installed("whole")
    assert not extras.is_installed("half")


def test_what_is_there_is_not_refused(table):
    extras.require("whole")
    extras.require("whole", "tomllib")


def test_missing_parts_are_named_with_what_installs_them(table):
    with pytest.raises(ImportError) as refusal:
        extras.require("half", "nor_this")
    told = 'Halves need no_such_module, nor_this: pip install ".[half]" in a clone of keras_norm'
    assert str(refusal.value) == told
