import subprocess
import sys

import pytest

from tests.fuzz import campaign
from tests.fuzz.campaign import Campaign

# Seed 1 ends its process; seed 5 hangs.
TRIALS = """
import json, os, sys, time
for seed in map(int, sys.argv[1:]):
    if seed == 1:
        os.abort()
    if seed == 5:
        time.sleep(60)
    outcomes = {"TFLite": {"status": "passed", "reason": ""}}
    trial = {"seed": seed, "policy": "", "layers": "", "outcomes": outcomes, "seconds": 0.0}
    print(json.dumps(trial), flush=True)
"""


@pytest.fixture
def run(monkeypatch):
    """Run a campaign of `TRIALS`, and return whether each seed failed."""

    def start(seeds):
        command = [sys.executable, "-c", TRIALS, *map(str, seeds)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(seeds, seconds=60.0):
        found = []
        Campaign(seeds, 2, seconds, found.append).run()
        return {trial.seed: trial.failed for trial in found}

    monkeypatch.setattr(campaign, "_start", start)
    monkeypatch.setattr(campaign, "MODELS_A_PROCESS", 3)
    return run


def test_a_seed_that_ends_its_process_fails_and_later_seeds_run(run):
    assert run(range(5)) == {0: False, 1: True, 2: False, 3: False, 4: False}


def test_the_time_limit_ends_a_campaign_without_a_failed_seed(run):
    assert run([4, 5, 6], seconds=3.0) == {4: False}
