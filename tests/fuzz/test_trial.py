import pytest

from tests.fuzz.trial import run_trial


@pytest.mark.filterwarnings("ignore:.*does not support masking:UserWarning")
def test_a_trial_exports_and_checks_both_formats():
    # A small model without a recurrence; `python -m tests.fuzz` runs other models.
    outcomes = run_trial(48).outcomes
    assert {kind: outcome.status for kind, outcome in outcomes.items()} == {
        "SavedModel": "passed",
        "TFLite": "passed",
    }
