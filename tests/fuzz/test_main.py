import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.trial import FAILED, PASSED, REFUSED, Outcome, Trial

BOTH = {"SavedModel": PASSED, "TFLite": PASSED}
ONE = {"SavedModel": PASSED, "TFLite": REFUSED}


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a campaign of four models with given outcomes; return its status and last line."""

    def run(*found):
        trials = [
            Trial(seed, "", "", {kind: Outcome(status) for kind, status in outcomes.items()}, 0.0)
            for seed, outcomes in enumerate(found)
        ]

        class Stub:
            def __init__(self, seeds, processes, seconds, report):
                self.report = report

            def run(self):
                for trial in trials:
                    self.report(trial)

        monkeypatch.setattr(fuzz, "Campaign", Stub)
        monkeypatch.setattr(fuzz.signal, "signal", lambda *_: None)
        status = fuzz.main(["--models", "4"])
        return status, capsys.readouterr().out.splitlines()[-1]

    return run


@pytest.mark.parametrize(
    ("found", "status", "line"),
    [
        ([BOTH, BOTH, ONE, ONE], 0, "PASS: 4 models, each format passed for at least 50% of them"),
        ([BOTH, ONE, ONE, ONE], 1, "FAIL: TFLite passed for 1 of 4 models, not for 50%"),
        ([BOTH, BOTH, BOTH], 1, "FAIL: 3 of 4 models were run"),
        ([BOTH, BOTH, BOTH, {"model": FAILED}], 1, "FAIL: seeds that failed: [3]"),
    ],
    ids=["half", "refused", "not run", "failed"],
)
def test_a_campaign_passes_if_each_model_ran_and_each_format_passes_for_half(
    run, found, status, line
):
    assert run(*found) == (status, line)
