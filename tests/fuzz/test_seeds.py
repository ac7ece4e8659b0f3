"""The seeds that once failed, and what each found; `python -m tests.fuzz` finds more."""

import pytest

from tests.fuzz.trial import run_trial

SEEDS = {
    4: "a recurrence with dropout drew masks at inference, and so wrote to a variable",
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore:.*does not support masking:UserWarning")
def test_a_seed_that_failed_passes(seed):
    trial = run_trial(seed)
    assert {kind: outcome.status for kind, outcome in trial.outcomes.items()} == {
        "SavedModel": "passed",
        "TFLite": "passed",
    }
