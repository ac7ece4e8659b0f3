"""Training stops by validation, and an interrupted run ends like an uninterrupted one."""

import copy
import dataclasses
import functools
import itertools
import json

import numpy as np
import pytest

from experiments.harness import trainer
from experiments.harness.study import Run
from experiments.harness.trainer import Trainer, values
from tests.experiments import toy_study

BN = toy_study.STUDY.arm("line", "BN")
RUN = Run(BN, 0.03, 1)


def train(folder, size=toy_study.SIZE, work=toy_study.STUDY.work):
    return Trainer(
        work, size, toy_study.PARTS, functools.partial(toy_study.build, BN, toy_study.PARTS), folder
    )


def weighed(model, parts):
    return {"weight": float(np.abs(model.get_weights()[0]).sum())}


def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, monkeypatch):
    """The model has dropout and batch statistics; the run measures further scores."""
    monkeypatch.setattr(trainer, "CHECKPOINT_INTERVAL", 0.0)
    work = dataclasses.replace(toy_study.STUDY.work, measure=weighed, every=1)
    whole = train(tmp_path / "whole", work=work)
    expected, variables = whole.run(RUN), values(whole.model)
    stopped, scored = copy.copy(whole), iter([False, False, True])
    stopped.folder = tmp_path
    scores = stopped._scores

    def interrupted(part):
        if next(scored):
            raise KeyboardInterrupt
        return scores(part)

    stopped._scores = interrupted
    with pytest.raises(KeyboardInterrupt):
        stopped.run(RUN)
    assert [path.name for path in tmp_path.glob("*.npz")] == [f"{RUN.name}.npz"]
    resumed = train(tmp_path, work=work)
    found = json.loads(json.dumps(resumed.run(RUN)))
    assert found | {"seconds": 0} == json.loads(json.dumps(expected)) | {"seconds": 0}
    for variable, other in zip(values(resumed.model), variables, strict=True):
        np.testing.assert_array_equal(variable, other)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a trainer, the results of a run and its final variables."""
    one = train(tmp_path_factory.mktemp("trained"))
    return one, one.run(RUN), values(one.model)


@pytest.fixture
def traced(trained, tmp_path):
    """Return the traced trainer with another checkpoint folder."""
    one = copy.copy(trained[0])
    one.folder = tmp_path
    return one


def scripted(one, errors, size, run=RUN):
    """Run a trainer with given validation errors and a test error of zero."""
    one.size, given = size, iter(errors)
    one._scores = lambda part: {"error": next(given) if part == "validation" else 0.0}
    return one.run(run)


@pytest.mark.parametrize(
    ("errors", "ended", "best"),
    [
        ([4.0, 3.0, 3.5, 3.6], "validation", 2),
        ([4.0, float("nan"), float("nan")], "validation", 1),
        ([4.0, 3.0, 2.0, 1.0], "rounds", 4),
    ],
)
def test_a_run_stops_when_validation_stops_improving(traced, errors, ended, best):
    found = scripted(traced, errors, toy_study.SIZE)
    assert (found["ended"], found["best_round"]) == (ended, best)


def test_a_run_depends_only_on_its_seed(traced, tmp_path):
    traced.size, found = dataclasses.replace(toy_study.SIZE, rounds=2), []
    for number, run in enumerate((RUN, dataclasses.replace(RUN, seed=2), RUN)):
        traced.folder = tmp_path / str(number)  # without the checkpoint of the run before
        found.append(traced.run(run)["history"])
    assert found[0] == found[2] != found[1]


def test_the_time_limit_counts_processor_time(traced, monkeypatch):
    monkeypatch.setattr(trainer, "HOUR", 3.5)
    seconds, used = itertools.count(0, 1000), itertools.count(0)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(trainer.time, "process_time", lambda: next(used))
    found = scripted(
        traced, [4.0, 3.0, 2.0, 1.0, 0.5], dataclasses.replace(toy_study.SIZE, rounds=9)
    )
    assert (found["ended"], found["best_round"]) == ("hour", 4)
    assert found["seconds"] >= 4000


def test_a_run_continues_from_its_trial(trained, traced, tmp_path, monkeypatch):
    _, expected, _ = trained
    tried = traced
    tried.size = dataclasses.replace(toy_study.SIZE, trial=2)
    trial = tried.run(dataclasses.replace(RUN, trial=True))
    assert (trial["ended"], trial["test"], "samples" in trial) == ("trial", {}, False)
    assert trial["history"]["error"] == expected["history"]["error"][:2]
    rounds = []
    learn = tried._train
    monkeypatch.setattr(tried, "_train", lambda run, k: (rounds.append(k), learn(run, k)))
    assert tried.run(RUN) | {"seconds": 0} == expected | {"seconds": 0}
    assert rounds == list(range(2, len(expected["history"]["error"])))


def test_the_weights_of_the_best_round_are_tested(traced):
    seen, errors = [], iter([1.0, 2.0, 3.0])

    def scores(part):
        seen.append(values(traced.model))
        return {"error": next(errors) if part == "validation" else 0.0}

    traced._scores = scores
    assert traced.run(RUN)["best_round"] == 1
    for best, tested in zip(seen[0], seen[3], strict=True):
        np.testing.assert_array_equal(tested, best)


def test_an_epoch_has_every_sample_once_in_an_order_of_its_own_and_of_the_seed(traced, monkeypatch):
    one, seen = traced, []
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(4):
        one._train(RUN, index)
    one._train(dataclasses.replace(RUN, seed=2), 0)
    for epoch in (seen[:2], seen[2:4]):
        rows = np.concatenate(epoch)
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(toy_study.X[:64], axis=0))
    assert not np.array_equal(seen[0], seen[2])
    assert not np.array_equal(seen[0], seen[4])  # another seed


def test_batch_statistics_are_recomputed_before_each_validation(tmp_path, monkeypatch):
    one = train(tmp_path, work=dataclasses.replace(toy_study.STUDY.work, recalibrated=True))
    learned = []
    fit = one.model.fit
    monkeypatch.setattr(one.model, "fit", lambda x, *a, **k: (learned.append(x), fit(x, *a, **k)))
    one._train(RUN, 0)
    dense, norm = one.model.layers[:2]
    np.testing.assert_allclose(norm.moving_mean, np.mean(dense(learned[0]), axis=0), atol=1e-6)
