"""Run the code of every page: `pytest docs`. A block continues the blocks before it on its page.

Python runs as it is. Shell blocks run line by line: the lines that call `keras-norm` run in this
process, and other lines are not run. A page prepares data and models in a comment that readers do
not see:

    <!--- invisible-code-block: python
    from tests.pages import digits, digits_model
    x_train, y_train = digits()
    model = digits_model()
    -->

A command that exits with another status than 0 follows a comment that sets `status = 1`.
"""

import importlib.util
import os
import shlex
import tempfile
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

import keras_norm_cli
from tests import without_xla
from tests.conftest import forked, pytest_configure  # noqa: F401  fork the workers of checks

# Pages that need a server: tests/examples/test_serving.py runs them.
SERVED = ["guides/serving.md", "guides/serving_clients.md"]


def run_shell(example: Example) -> str | None:
    """Run the lines of a block that call `keras-norm`; return the first failure."""
    text = example.parsed.replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("keras-norm "):
            words = shlex.split(line, comments=True)
            expected = example.namespace.pop("status", 0)
            try:
                status = keras_norm_cli.main(words[1:])
            except SystemExit as end:  # --version
                status = end.code or 0
            if status != expected:
                return f"exit status {status}: {line}"
    return None


def start_page(names: dict[str, Any]) -> None:
    """Run a page in an empty folder, as a module, because functions have the name of a module.

    Recurrences run without XLA, because compilation would take a fifth of the time.
    """
    names["__name__"] = "page"
    names["patch"] = pytest.MonkeyPatch()
    without_xla.trace(names["patch"])
    names["installed"] = lambda name: importlib.util.find_spec(name) is not None
    names["folder"] = tempfile.TemporaryDirectory()
    names["outside"] = os.getcwd()
    os.chdir(names["folder"].name)


def end_page(names: dict[str, Any]) -> None:
    """Compile recurrences again, return to the folder of the tests, and delete the page's files."""
    names["patch"].undo()
    os.chdir(names["outside"])
    names["folder"].cleanup()


collect_page = Sybil(
    parsers=[
        SkipParser(),
        PythonCodeBlockParser(),
        CodeBlockParser("bash", run_shell),
    ],
    patterns=["*.md"],
    excludes=SERVED,
    setup=start_page,
    teardown=end_page,
    fixtures=["forked"],
).pytest()


def pytest_collect_file(file_path, parent):
    return collect_page(file_path, parent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the pages as slow: they train and export."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.slow)
