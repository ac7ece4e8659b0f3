"""A bar in a terminal or a notebook, and nothing elsewhere; the bar is removed at the end."""

import contextlib
import io
import itertools
import sys
import types

import pytest
import rich.console

from keras_norm import progress
from keras_norm.progress import Progress


def set_clock(monkeypatch, step):
    """Let the clock advance by some seconds with each call."""
    seconds = itertools.count(0.0, step)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: next(seconds)))


@pytest.fixture
def clock(monkeypatch):
    """Let each step take one second."""
    set_clock(monkeypatch, 1.0)


@pytest.fixture
def notebook(monkeypatch):
    """Take the place of a notebook; return the list of texts that its output had."""
    shown = []

    def show(output, raw, **display_id):
        assert raw
        shown.append(output["text/html"])
        return types.SimpleNamespace(update=show)

    module = types.ModuleType("IPython.display")
    module.display = show
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    console = rich.console.Console(force_jupyter=True)
    monkeypatch.setattr(progress.rich.console, "Console", lambda: console)
    return shown


def run(*texts, total=None):
    with Progress("check", total) as shown:
        for text in texts:
            shown.step(text)


def test_a_notebook_shows_one_output_that_is_empty_at_the_end(clock, notebook):
    run("first", "second", total=2)
    assert notebook == [
        '<progress value="0" max="2"></progress> 0/2 check: first',
        '<progress value="1" max="2"></progress> 1/2 check: second',
        "",
    ]


def test_a_bar_without_a_total_counts_escapes_names_and_is_removed_after_an_error(clock, notebook):
    with contextlib.suppress(KeyError), Progress("check") as shown:
        shown.step("")
        shown.step("<b>")
        raise KeyError
    first, second = "<progress></progress> 0 check", "<progress></progress> 1 check: &lt;b&gt;"
    assert notebook == [first, second, ""]


def test_a_short_call_shows_nothing(notebook):
    run("first", "second", total=2)
    assert notebook == []


def test_many_steps_without_text_are_shown_a_few_times_per_second(monkeypatch, notebook):
    set_clock(monkeypatch, 0.01)
    run(*[""] * 500)  # 5 seconds
    assert 15 <= len(notebook) <= 25


def test_a_terminal_shows_a_line_and_clears_it(clock, monkeypatch):
    text = io.StringIO()
    terminal = rich.console.Console(file=text, force_terminal=True, width=80)
    monkeypatch.setattr(progress.rich.console, "Console", lambda: terminal)
    run("first", "testing [bold]x", total=2)
    assert "check: testing [bold]x" in text.getvalue()
    assert "1/2" in text.getvalue()
    assert text.getvalue().endswith("\r\x1b[1A\x1b[2K")  # the line is erased


def test_other_output_stays_empty(clock, capsys):
    run("first", "second", total=2)
    assert capsys.readouterr() == ("", "")
