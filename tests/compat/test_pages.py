"""Code of pages that needs other libraries runs; `pytest docs` runs the other code of the pages."""

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


def test_statistics_are_collected_and_merged_on_apache_beam(tmp_path):
    if importlib.util.find_spec("apache_beam") is None:
        pytest.skip("`make test-compat` has an environment with Apache Beam")
    first, *others = python_blocks("recalibrate_parts.md")
    (on_beam,) = (block for block in others if "apache_beam" in block)
    check = """
merged, whole = Statistics.load("merged.npz"), collect_statistics(model, x)
for path, layer in whole.layers.items():
    np.testing.assert_array_equal(merged.layers[path].count, layer.count)
    if path.endswith("kernel_norm"):
        np.testing.assert_allclose(merged.layers[path].mean, layer.mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(merged.layers[path].variance, layer.variance, rtol=1e-5)
"""
    (tmp_path / "page.py").write_text("\n".join([first, on_beam, check]))
    process = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
