"""The arguments that all short studies take."""

import pathlib

import pytest

from experiments.harness.command import parse

PRESETS = {"smoke": 1, "small": 2, "paper": 3}


def parsed(*argv):
    return parse("counting", "Counts.\n\nMore.", PRESETS, argv)


def test_the_small_preset_goes_to_a_folder_of_its_own():
    asked = parsed()
    assert (asked.settings, asked.seed) == (2, 0)
    assert asked.out == pathlib.Path("build/experiments/counting/small")


def test_the_data_folder_is_the_one_named_or_the_variables(monkeypatch):
    monkeypatch.setenv("KERAS_NORM_DATA", "by variable")
    assert parsed().data == pathlib.Path("by variable")
    assert parsed("--data", "by argument").data == pathlib.Path("by argument")
    monkeypatch.delenv("KERAS_NORM_DATA")
    assert parsed().data is None


def test_help_shows_what_the_example_does(capsys):
    with pytest.raises(SystemExit, match="0"):
        parsed("--help")
    text = capsys.readouterr().out
    assert "python -m experiments.counting" in text
    assert "Counts." in text
    assert "More." not in text


def test_another_preset_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        parsed("--preset", "large")
    assert "'smoke', 'small', 'paper'" in capsys.readouterr().err
