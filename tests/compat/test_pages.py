"""The page about Flax runs; `pytest docs` runs the other pages of migration."""

import importlib.util
import subprocess
import sys

import pytest

from tests.compat.pages import python_blocks


def test_the_page_of_flax(tmp_path):
    """The page runs in a process of its own: a process that has loaded JAX cannot load Triton."""
    if importlib.util.find_spec("flax") is None:
        pytest.skip("`make test-compat` has an environment with Flax")
    (tmp_path / "page.py").write_text("\n".join(python_blocks("from_flax.md")))
    process = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
