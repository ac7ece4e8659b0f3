"""The examples in docstrings and in the README run; the guides of messages have real messages."""

import ast
import doctest
import importlib
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import export
from tests import pages
from tests.test_imports import MODULES, imported

ROOT = pathlib.Path(__file__).parents[1]
# Worker scripts import these modules by their path, so only a worker can import the scripts.
WORKER_MODULES = {"channel", "float_ops", "tflite_schema", "worker_protocol"}
# Listed by name. `pkgutil` would also find the modules in the repository's root, because the root
# is on the path of keras_norm.
DOCUMENTED = [
    name
    for name, path in sorted(MODULES.items())
    if name.startswith(("keras_norm.", "experiments.harness"))
    # `keras_norm.rnn` has the presets, whose docstrings are written from others.
    and (">>>" in path.read_text() or name == "keras_norm.rnn")
    and not imported(name) & WORKER_MODULES
    and not name.startswith("keras_norm.rnn.core.torch_")  # PyTorch need not be installed
]


def examples(module_name: str) -> list[doctest.DocTest]:
    public = {name: getattr(keras_norm, name) for name in keras_norm.__all__}
    names = {**public, **vars(keras_norm.compat), **vars(export)}
    names |= {"keras": keras, "keras_norm": keras_norm, "np": np}
    module = importlib.import_module(module_name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names)
    return [test for test in found if test.examples]


@pytest.mark.slow
@pytest.mark.parametrize("module_name", DOCUMENTED)
def test_docstring_examples_run(
    module_name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = pages.digits(8)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples(module_name):
        test.globs |= {"x_test": x, "y_test": y}
        if module_name.startswith("keras_norm.export"):
            test.globs |= {"model": pages.digits_model(), "text_model": pages.text_model()}
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_the_code_of_the_readme_is_the_code_of_the_first_page() -> None:
    """`pytest docs` runs the first page, and `make dist-test` runs the README."""
    pages_text = [(ROOT / name).read_text() for name in ("README.md", "docs/index.md")]
    readme, first_page = (re.findall(r"^```python\n.*?^```", t, re.M | re.S) for t in pages_text)
    assert readme == first_page


def strings_in_code() -> list[str]:
    """List all strings in the package, with "…" in place of the values of an f-string."""
    files = [
        *ROOT.glob("keras_norm/**/*.py"),
        *ROOT.glob("export/**/*.py"),
        *ROOT.glob("keras_norm_cli/*.py"),
        *ROOT.glob("keras_norm_verify/*.py"),
    ]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    f_strings = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
    constants = [[node] for node in nodes if isinstance(node, ast.Constant)]
    return [
        "".join(str(getattr(n, "value", "…")) for n in nodes) for nodes in f_strings + constants
    ]


def test_the_messages_in_the_docs_are_in_the_code() -> None:
    pages = sorted((ROOT / "docs" / "guides").glob("troubleshooting_*.md"))
    text = "\n".join(page.read_text() for page in pages)
    messages, strings = re.findall(r"^`([^`]+)`.*\n: ", text, re.MULTILINE), strings_in_code()
    assert len(messages) > 50
    for message in messages:
        fragments = [fragment.strip() for fragment in message.split("…")]
        assert any(all(part in text for part in fragments) for text in strings), message
