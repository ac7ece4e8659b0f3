import dataclasses
import re

import pytest

from keras_norm.export.report.terminal import breakable
from keras_norm.export.results.artifact_result import Metric, PropertyResult
from tests.export.report.reports import EXPECTED, artifact, printed


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_every_verdict_in_full(failing, width):
    text = printed(failing, width)
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" ?(pass|fail) ", line)]
    assert rows == ["fail", "fail", "fail", "pass"]
    assert text.startswith("FAIL")
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_the_terminal_shows_why_a_property_does_not_apply_and_the_timesteps(passing):
    text = printed(passing)
    assert "no input is masked" in text
    assert "2 of 3" in text


def test_a_name_cannot_add_a_line_to_a_printed_report(failing):
    name = "a\nPASS: forged\x1b[31m\u202e[red]"
    layers = tuple(dataclasses.replace(layer, path=name, note=name) for layer in failing.gap.layers)
    tested = (PropertyResult(name, "fail", name),)
    artifacts = (
        artifact(name, EXPECTED + 0.25, properties=tested),
        artifact(name, EXPECTED, outputs=(), error=name),
    )
    gap = dataclasses.replace(failing.gap, layers=layers, reason=name)
    keras = dataclasses.replace(failing.keras, metrics=(Metric(name, name, 0.5),))
    report = dataclasses.replace(failing, artifacts=artifacts, gap=gap, notes=(name,), keras=keras)
    text = printed(report, 300)
    assert repr(report).isprintable()
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert not any(line.lstrip().startswith("PASS") for line in text.splitlines())
    assert r"a\nPASS: forged\x1b[31m\u202e[red]" in text


def test_a_path_breaks_after_its_slashes_only():
    path = "bidirectional_2/backward_norm_simple_rnn_1/norm_simple_rnn_cell_1/kernel_norm"
    lines = breakable(path, 42, "/").plain.split("\n")
    assert "".join(lines) == path
    assert all(len(line) <= 42 for line in lines)
    assert lines[-1].endswith("kernel_norm")
    assert breakable("a_name_of_its_own_that_is_far_too_long/gamma", 10, "/").plain.split("\n") == [
        "a_name_of_its_own_that_is_far_too_long/",
        "gamma",
    ]
