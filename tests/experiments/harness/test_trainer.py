"""Training stops by validation, and an interrupted run ends like an uninterrupted one."""

import copy
import dataclasses
import functools
import itertools
import json

import keras
import numpy as np
import pytest

import keras_norm
from experiments.harness import sample_scores, trainer
from experiments.harness.study import Drawings, Run
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


def test_a_finished_run_removes_its_checkpoint(traced, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "CHECKPOINT_INTERVAL", 0.0)
    scripted(traced, [4.0, 3.0, 3.5, 1.0], toy_study.SIZE)
    assert list(tmp_path.iterdir()) == []


TRIAL = dataclasses.replace(toy_study.SIZE, trial=2)
NEW_ERRORS = [5.0, 4.0, 3.0, 2.0]


def test_a_checkpoint_with_other_settings_is_ignored(traced):
    scripted(traced, [4.0, 3.0], TRIAL, dataclasses.replace(RUN, trial=True))
    patient = dataclasses.replace(TRIAL, patience=9)
    assert scripted(traced, NEW_ERRORS, patient)["history"]["error"] == NEW_ERRORS


@pytest.mark.parametrize("damage", ["truncated", "of another model"])
def test_a_damaged_or_unsuitable_checkpoint_is_ignored(traced, tmp_path, damage):
    scripted(traced, [4.0, 3.0], TRIAL, dataclasses.replace(RUN, trial=True))
    checkpoint = tmp_path / f"{RUN.name}.npz"
    if damage == "truncated":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-99])
    else:
        with np.load(checkpoint) as arrays:
            np.savez(checkpoint, **{**arrays, "variable0": np.zeros((9, 9))})
    assert scripted(traced, NEW_ERRORS, TRIAL)["history"]["error"] == NEW_ERRORS


def test_patience_waits_until_a_run_has_learned(traced):
    traced.work = dataclasses.replace(traced.work, learned=3.5)
    size = dataclasses.replace(toy_study.SIZE, rounds=9)
    found = scripted(traced, [4.0, 4.1, 4.1, 4.1, 3.0, 3.1, 3.1], size)
    assert (found["ended"], found["best_round"]) == ("validation", 5)


def test_a_run_stops_at_the_time_limit(traced, monkeypatch):
    monkeypatch.setattr(trainer, "HOUR", 0.0)
    assert scripted(traced, [4.0, 3.0], toy_study.SIZE)["ended"] == "hour"


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


@pytest.mark.parametrize("seeds", [1, 2])
def test_sample_scores_are_stored_only_with_one_seed(trained, traced, seeds):
    traced.work = dataclasses.replace(
        toy_study.STUDY.work, score=lambda outputs, y: {"error": np.square(outputs - y)[:, 0]}
    )
    traced.size = dataclasses.replace(toy_study.SIZE, seeds=seeds)
    found, (_, whole, _) = traced.run(RUN), trained
    assert found["test"] == pytest.approx(whole["test"])
    assert found["history"]["error"] == pytest.approx(whole["history"]["error"], abs=1e-4)
    assert ("samples" in found) == (seeds == 1)
    if seeds == 1:
        each = sample_scores.unpack(found["samples"]["error"])
        assert len(each) == len(toy_study.PARTS["test"][1])
        assert each.mean() == pytest.approx(found["test"]["error"])


def test_the_weights_of_the_best_round_are_tested(trained, traced):
    one, (_, found, weights) = traced, trained
    one._restore(weights)
    assert found["validation"]["error"] == pytest.approx(min(found["history"]["error"]), abs=1e-5)
    outputs = one.model.predict(toy_study.PARTS["test"][0], verbose=0)
    assert found["test"] == pytest.approx(toy_study.score(outputs, toy_study.PARTS["test"][1]))


def test_an_epoch_has_every_sample_once_in_a_new_order(traced, monkeypatch):
    one, seen = traced, []
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(4):
        one._train(RUN, index)
    for epoch in (seen[:2], seen[2:]):
        rows = np.concatenate(epoch)
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(toy_study.X[:64], axis=0))
    assert not np.array_equal(seen[0], seen[2])


def test_in_order_training_keeps_the_order_of_the_samples(traced, monkeypatch):
    one, seen = traced, []
    one.work = dataclasses.replace(toy_study.STUDY.work, in_order=True)
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(2):
        one._train(RUN, index)
    np.testing.assert_array_equal(np.concatenate(seen), toy_study.X[:64])


def test_the_results_have_the_updates_of_a_round_and_of_an_epoch(trained):
    _, entry, _ = trained
    assert (entry["updates"], entry["epoch"]) == (2, 4.0)


def test_scores_measured_during_training_are_stored_with_their_round(trained, traced):
    """The scores of the best round are test scores too."""
    traced.work = dataclasses.replace(toy_study.STUDY.work, measure=weighed, every=2)
    found = traced.run(RUN)
    assert [number for number, _ in found["measured"]] == [2, 4]
    weights = [scores["weight"] for _, scores in found["measured"]]
    assert weights[0] != weights[1]
    assert found["best_round"] == 4
    assert found["test"]["weight"] == weights[1]
    assert "measured" not in trained[1]


def test_batch_statistics_are_recomputed_before_each_validation(tmp_path, monkeypatch):
    one = train(tmp_path, work=dataclasses.replace(toy_study.STUDY.work, recalibrated=True))
    learned = []
    fit = one.model.fit
    monkeypatch.setattr(one.model, "fit", lambda x, *a, **k: (learned.append(x), fit(x, *a, **k)))
    one._train(RUN, 0)
    dense, norm = one.model.layers[:2]
    np.testing.assert_allclose(norm.moving_mean, np.mean(dense(learned[0]), axis=0), atol=1e-6)


def test_noise_in_recomputed_batch_statistics_depends_only_on_the_run(tmp_path):
    def noisy():
        layers = [keras.layers.GaussianNoise(1.0, seed=0), keras_norm.BatchNormalization()]
        return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])

    work = dataclasses.replace(toy_study.STUDY.work, recalibrated=True)
    size = dataclasses.replace(toy_study.SIZE, rounds=2)
    one, other = (Trainer(work, size, toy_study.PARTS, noisy, tmp_path) for _ in range(2))
    found = []
    for number, trained in enumerate((one, one, other)):
        trained.folder = tmp_path / str(number)  # without the checkpoint of the run before
        found.append(trained.run(RUN)["history"])
    assert found[0] == found[1] == found[2]


def test_a_model_without_batch_norm_is_not_recalibrated(tmp_path):
    work = dataclasses.replace(toy_study.STUDY.work, recalibrated=True)
    arm = toy_study.STUDY.arm("line", "none")
    build = functools.partial(toy_study.build, arm, toy_study.PARTS)
    assert Trainer(work, toy_study.SIZE, toy_study.PARTS, build, tmp_path).recalibrate is None


@pytest.mark.parametrize(("seed", "drawn"), [(0, [64, 5]), (1, None)])
def test_only_the_model_of_seed_0_draws_samples(traced, seed, drawn):
    drawings = Drawings(lambda model, parts: [len(parts["training"][1]), 5], print, "Numbers")
    traced.work = dataclasses.replace(toy_study.STUDY.work, drawings=drawings)
    traced.size = dataclasses.replace(toy_study.SIZE, rounds=1)
    assert traced.run(dataclasses.replace(RUN, seed=seed)).get("drawings") == drawn


def test_a_loss_may_be_a_function(trained, tmp_path):
    def loss(targets, outputs):
        return keras.ops.mean(keras.ops.square(targets - outputs), axis=-1)

    size = dataclasses.replace(toy_study.SIZE, rounds=1)
    work = dataclasses.replace(toy_study.STUDY.work, loss=loss)
    found = train(tmp_path, size, work).run(RUN)
    assert found["history"]["error"] == trained[1]["history"]["error"][:1]
