"""Results of the benchmark, and their JSON file."""

import dataclasses

import pytest

from benchmarks import results
from benchmarks.results import Results
from benchmarks.settings import FULL, LSTM, REFERENCES
from benchmarks.timing import Spread
from tests.benchmarks import sample_results


def test_results_are_equal_after_saving_and_loading(tmp_path):
    saved = sample_results.results()
    saved.save(tmp_path / "new" / "results.json")
    assert Results.load(tmp_path / "new" / "results.json") == saved


def test_a_reference_is_the_fastest_of_its_variants():
    measured = sample_results.results().of("recurrent")[0]
    assert measured.fastest(REFERENCES[LSTM]) == "keras LSTM, jit"
    ratio = measured.ratio("LN-LSTM", REFERENCES[LSTM])
    assert dataclasses.astuple(ratio) == pytest.approx(dataclasses.astuple(Spread(0.6, 0.6, 0.6)))


def test_the_ratio_is_none_if_a_variant_is_not_measured():
    measured = sample_results.results().of("growth")[0]
    assert measured.ratio("LN-LSTM", ("keras GRU",)) is None
    assert measured.ratio("BN-LSTM", ("keras LSTM",)) is None


def test_results_continue_only_with_equal_machine_and_settings():
    begun = results.begin(dataclasses.asdict(FULL))
    another_day = dataclasses.replace(begun, settings={**begun.settings, "date": "1970-01-01"})
    assert begun.continues(another_day)
    fewer = {**dataclasses.asdict(FULL), "rounds": 3}
    assert not begun.continues(results.begin(fewer))
    assert not begun.continues(dataclasses.replace(begun, machine=sample_results.MACHINE))
