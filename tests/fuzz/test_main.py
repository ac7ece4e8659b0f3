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


def test_a_campaign_passes_if_each_format_passes_for_half_of_the_models(run):
    line = "PASS: 4 models, each format passed for at least 50% of them"
    assert run(BOTH, BOTH, ONE, ONE) == (0, line)


def test_a_campaign_fails_if_a_format_is_refused_for_most_models(run):
    line = "FAIL: TFLite passed for 1 of 4 models, not for 50%"
    assert run(BOTH, ONE, ONE, ONE) == (1, line)


def test_a_campaign_fails_if_models_did_not_run(run):
    assert run(BOTH, BOTH, BOTH) == (1, "FAIL: 3 of 4 models were run")


def test_the_seed_of_a_failed_model_is_printed(run):
    assert run(BOTH, BOTH, BOTH, {"model": FAILED}) == (1, "FAIL: seeds that failed: [3]")
