"""Figures need Matplotlib only when they are drawn, and a notebook shows them once."""

import sys

import matplotlib.pyplot as plt
import pytest

from keras_norm.new_figure import label_of, new_figure


def test_pyplot_does_not_show_the_figure_a_second_time():
    figure, axes = new_figure(2, 3, 1.0)
    assert [len(row) for row in axes] == [3, 3]
    assert figure.axes == [each for row in axes for each in row]
    assert plt.get_fignums() == []


def test_a_missing_matplotlib_raises_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[plot\]"'):
        new_figure(1, 1, 1.0)


@pytest.mark.parametrize("name", ["_a", "a$b", "a"])
def test_a_label_is_neither_hidden_nor_a_formula(name):
    assert not label_of(name).startswith("_")
    assert label_of(name).replace(r"\$", "").count("$") == 0
