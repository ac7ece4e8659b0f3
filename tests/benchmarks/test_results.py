"""What was measured, and its file."""

import dataclasses

import pytest

from benchmarks import results
from benchmarks.results import Results
from benchmarks.settings import FULL, LSTM, REFERENCES
from benchmarks.timing import Spread
from tests.benchmarks import made


def test_the_file_gives_back_what_was_saved(tmp_path):
    saved = made.results()
    saved.save(tmp_path / "new" / "results.json")
    assert Results.load(tmp_path / "new" / "results.json") == saved


def test_the_file_has_each_variants_rounds_on_one_line(tmp_path):
    made.results().save(tmp_path / "results.json")
    assert '"LN-LSTM": [ 0.06, 0.03, 0.03 ]' in (tmp_path / "results.json").read_text()


def test_a_reference_is_the_fastest_of_its_variants():
    measured = made.results().of("recurrent")[0]
    assert measured.fastest(REFERENCES[LSTM]) == "keras LSTM, jit"
    ratio = measured.ratio("LN-LSTM", REFERENCES[LSTM])
    assert dataclasses.astuple(ratio) == pytest.approx(dataclasses.astuple(Spread(0.6, 0.6, 0.6)))


def test_there_is_no_ratio_to_what_was_not_measured():
    measured = made.results().of("growth")[0]
    assert measured.ratio("LN-LSTM", ("keras GRU",)) is None
    assert measured.ratio("BN-LSTM", ("keras LSTM",)) is None


def test_a_suite_that_is_run_again_replaces_its_measurements():
    old = made.results()
    new = old.with_suite("memory", [])
    assert not new.of("memory")
    assert len(new.measurements) == len(old.measurements) - 1


def test_results_go_on_only_on_the_same_machine_with_the_same_settings():
    begun = results.begin(dataclasses.asdict(FULL))
    another_day = dataclasses.replace(begun, settings={**begun.settings, "date": "1970-01-01"})
    assert begun.continues(another_day)
    fewer = {**dataclasses.asdict(FULL), "rounds": 3}
    assert not begun.continues(results.begin(fewer))
    assert not begun.continues(dataclasses.replace(begun, machine=made.MACHINE))


def test_this_machine_is_described_in_one_line():
    line = results.describe(results.this_machine())
    assert "\n" not in line
    assert "TensorFlow 2." in line
    assert " cores" in line
