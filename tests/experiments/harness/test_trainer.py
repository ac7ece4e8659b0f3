"""A training ends where validation says so, and a stopped one as if it had not been."""

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


def test_stopped_and_resumed_equals_not_stopped(tmp_path, monkeypatch):
    """Dropout, moments of the optimizer, batch statistics and what was measured go on too."""
    monkeypatch.setattr(trainer, "SAVE_EVERY", 0.0)
    work = dataclasses.replace(toy_study.STUDY.work, measure=weighed, every=1)
    whole = train(tmp_path / "whole", work=work)
    expected = whole.run(RUN)
    stopped, scored = train(tmp_path, work=work), iter([False, False, True])
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
    for variable, other in zip(values(resumed.model), values(whole.model), strict=True):
        np.testing.assert_array_equal(variable, other)


def test_cut_off_by_a_bound_on_rounds_and_gone_on_equals_not_cut_off(tmp_path):
    """Other weights than the last were tested in between: the largest error counts as the best."""
    more = dataclasses.replace(toy_study.SIZE, rounds=5, patience=9)
    work = dataclasses.replace(toy_study.STUDY.work, higher=True, measure=weighed, every=2)
    one = train(tmp_path / "whole", more, work)
    expected = one.run(RUN)
    one.folder, one.size = tmp_path / "cut off", dataclasses.replace(more, rounds=3)
    cut = one.run(RUN)
    assert (cut["ended"], cut["best_round"]) == ("rounds", 1)
    assert cut["history"]["error"] == expected["history"]["error"][:3]
    one.size, learn, rounds = more, one._train, []
    one._train = lambda run, k: (rounds.append(k), learn(run, k))
    found = json.loads(json.dumps(one.run(RUN)))
    assert found | {"seconds": 0} == json.loads(json.dumps(expected)) | {"seconds": 0}
    assert rounds == [3, 4]


def test_the_same_seed_is_the_same_run_whatever_ran_before(tmp_path):
    one, found = train(tmp_path, dataclasses.replace(toy_study.SIZE, rounds=2)), []
    for number, run in enumerate((RUN, dataclasses.replace(RUN, seed=2), RUN)):
        one.folder = tmp_path / str(number)  # or it would go on from its own checkpoint
        found.append(one.run(run)["history"])
    assert found[0] == found[2] != found[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trainer, and what a run of it gave."""
    one = train(tmp_path_factory.mktemp("trained"))
    return one, one.run(RUN), values(one.model)


@pytest.fixture
def traced(trained, tmp_path):
    """The same trainer, elsewhere: what it has traced serves other sizes too."""
    one = copy.copy(trained[0])
    one.folder = tmp_path
    return one


def scripted(one, errors, size):
    """A trainer whose validation has these errors, and whose test has none."""
    one.size, given = size, iter(errors)
    one._scores = lambda part: {"error": next(given) if part == "validation" else 0.0}
    return one.run(RUN)


@pytest.mark.parametrize(
    ("errors", "ended", "best"),
    [
        ([4.0, 3.0, 3.5, 3.6], "validation", 2),
        ([4.0, float("nan"), float("nan")], "validation", 1),
        ([4.0, 3.0, 2.0, 1.0], "rounds", 4),
    ],
)
def test_a_run_ends_when_validation_stops_improving(traced, errors, ended, best):
    found = scripted(traced, errors, toy_study.SIZE)
    assert (found["ended"], found["best_round"]) == (ended, best)


@pytest.mark.parametrize(
    ("last", "kept"), [(3.6, []), (1.0, [f"{RUN.name}.npz"])], ids=["validation", "rounds"]
)
def test_a_checkpoint_is_kept_where_more_rounds_would_go_on_from_it(
    traced, tmp_path, monkeypatch, last, kept
):
    monkeypatch.setattr(trainer, "SAVE_EVERY", 0.0)
    scripted(traced, [4.0, 3.0, 3.5, last], toy_study.SIZE)
    assert [path.name for path in tmp_path.glob("*.npz")] == kept


def test_a_checkpoint_of_other_settings_is_passed_by(traced):
    """Or a study that was changed would go on from what it was before."""
    scripted(traced, [4.0, 3.0, 3.5, 1.0], toy_study.SIZE)
    patient = dataclasses.replace(toy_study.SIZE, patience=9)
    anew = [5.0, 4.0, 3.0, 2.0]
    assert scripted(traced, anew, patient)["history"]["error"] == anew


@pytest.mark.parametrize("damage", ["cut off", "of another model"])
def test_a_checkpoint_that_does_not_fit_is_passed_by(traced, tmp_path, damage):
    scripted(traced, [4.0, 3.0, 3.5, 1.0], toy_study.SIZE)
    checkpoint = tmp_path / f"{RUN.name}.npz"
    if damage == "cut off":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-99])
    else:
        with np.load(checkpoint) as arrays:
            np.savez(checkpoint, **{**arrays, "variable0": np.zeros((9, 9))})
    anew = [5.0, 4.0, 3.0, 2.0]
    assert scripted(traced, anew, toy_study.SIZE)["history"]["error"] == anew


def test_patience_waits_until_a_run_has_learned(traced):
    traced.work = dataclasses.replace(traced.work, learned=3.5)
    size = dataclasses.replace(toy_study.SIZE, rounds=9)
    found = scripted(traced, [4.0, 4.1, 4.1, 4.1, 3.0, 3.1, 3.1], size)
    assert (found["ended"], found["best_round"]) == ("validation", 5)


def test_a_run_ends_after_an_hour(traced, monkeypatch):
    monkeypatch.setattr(trainer, "HOUR", 0.0)
    assert scripted(traced, [4.0, 3.0], toy_study.SIZE)["ended"] == "hour"


def test_the_hour_is_one_of_processors_and_not_of_the_clock(traced, monkeypatch):
    monkeypatch.setattr(trainer, "HOUR", 3.5)
    seconds, used = itertools.count(0, 1000), itertools.count(0)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(trainer.time, "process_time", lambda: next(used))
    found = scripted(
        traced, [4.0, 3.0, 2.0, 1.0, 0.5], dataclasses.replace(toy_study.SIZE, rounds=9)
    )
    assert (found["ended"], found["best_round"]) == ("hour", 4)
    assert found["seconds"] >= 4000


def test_a_run_that_was_tried_goes_on_from_its_trial(trained, traced, tmp_path, monkeypatch):
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
def test_scores_of_test_samples_are_kept_where_there_is_one_seed(trained, traced, seeds):
    traced.work = dataclasses.replace(
        toy_study.STUDY.work, score=lambda outputs, y: {"error": np.square(outputs - y)[:, 0]}
    )
    traced.size = dataclasses.replace(toy_study.SIZE, seeds=seeds)
    found, (_, whole, _) = traced.run(RUN), trained
    assert found["test"] == pytest.approx(whole["test"])
    assert found["history"]["error"] == pytest.approx(whole["history"]["error"], abs=1e-4)
    assert ("samples" in found) == (seeds == 1)
    if seeds == 1:
        each = sample_scores.unpacked(found["samples"]["error"])
        assert len(each) == len(toy_study.PARTS["test"][1])
        assert each.mean() == pytest.approx(found["test"]["error"])


def test_the_weights_of_the_best_round_are_tested(trained, traced):
    one, (_, found, weights) = traced, trained
    one._restore(weights)
    assert found["validation"]["error"] == pytest.approx(min(found["history"]["error"]), abs=1e-5)
    outputs = one.model.predict(toy_study.PARTS["test"][0], verbose=0)
    assert found["test"] == pytest.approx(toy_study.score(outputs, toy_study.PARTS["test"][1]))


def test_an_epoch_has_every_sample_once_and_the_next_another_order(traced, monkeypatch):
    one, seen = traced, []
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(4):
        one._train(RUN, index)
    for epoch in (seen[:2], seen[2:]):
        rows = np.concatenate(epoch)
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(toy_study.X[:64], axis=0))
    assert not np.array_equal(seen[0], seen[2])


def test_samples_that_are_learned_in_order_are(traced, monkeypatch):
    one, seen = traced, []
    one.work = dataclasses.replace(toy_study.STUDY.work, in_order=True)
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(2):
        one._train(RUN, index)
    np.testing.assert_array_equal(np.concatenate(seen), toy_study.X[:64])


def test_updates_of_a_round_and_of_an_epoch_are_kept(trained):
    _, kept, _ = trained
    assert (kept["updates"], kept["epoch"]) == (2, 4.0)


def test_what_is_measured_on_the_way_is_kept_with_its_round(trained, traced):
    """And so is what was measured of the best round, as a score of the test."""
    traced.work = dataclasses.replace(toy_study.STUDY.work, measure=weighed, every=2)
    found = traced.run(RUN)
    assert [number for number, _ in found["measured"]] == [2, 4]
    weights = [scores["weight"] for _, scores in found["measured"]]
    assert weights[0] != weights[1]
    assert found["best_round"] == 4
    assert found["test"]["weight"] == weights[1]
    assert "measured" not in trained[1]


def test_batch_statistics_are_computed_anew_before_each_validation(tmp_path, monkeypatch):
    one = train(tmp_path, work=dataclasses.replace(toy_study.STUDY.work, recalibrated=True))
    learned = []
    fit = one.model.fit
    monkeypatch.setattr(one.model, "fit", lambda x, *a, **k: (learned.append(x), fit(x, *a, **k)))
    one._train(RUN, 0)
    dense, norm = one.model.layers[:2]
    np.testing.assert_allclose(norm.moving_mean, np.mean(dense(learned[0]), axis=0), atol=1e-6)


def test_noise_that_batch_statistics_are_computed_with_follows_from_the_run(tmp_path):
    def noisy():
        layers = [keras.layers.GaussianNoise(1.0, seed=0), keras_norm.BatchNormalization()]
        return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])

    work = dataclasses.replace(toy_study.STUDY.work, recalibrated=True)
    size = dataclasses.replace(toy_study.SIZE, rounds=2)
    one, other = (Trainer(work, size, toy_study.PARTS, noisy, tmp_path) for _ in range(2))
    found = []
    for number, trained in enumerate((one, one, other)):
        trained.folder = tmp_path / str(number)  # or it would go on from its own checkpoint
        found.append(trained.run(RUN)["history"])
    assert found[0] == found[1] == found[2]


def test_a_model_without_batch_statistics_needs_none(tmp_path):
    work = dataclasses.replace(toy_study.STUDY.work, recalibrated=True)
    arm = toy_study.STUDY.arm("line", "none")
    build = functools.partial(toy_study.build, arm, toy_study.PARTS)
    assert Trainer(work, toy_study.SIZE, toy_study.PARTS, build, tmp_path).recalibrate is None


@pytest.mark.parametrize(("seed", "kept"), [(0, [64, 5]), (1, None)])
def test_the_model_of_seed_0_draws_as_it_is_at_its_best_round(traced, seed, kept):
    drawings = Drawings(lambda model, parts: [len(parts["training"][1]), 5], print, "Numbers")
    traced.work = dataclasses.replace(toy_study.STUDY.work, drawings=drawings)
    assert traced.run(dataclasses.replace(RUN, seed=seed)).get("drawings") == kept


def test_a_loss_may_be_a_function(trained, tmp_path):
    def loss(targets, outputs):
        return keras.ops.mean(keras.ops.square(targets - outputs), axis=-1)

    found = train(tmp_path, work=dataclasses.replace(toy_study.STUDY.work, loss=loss)).run(RUN)
    assert found["history"] == trained[1]["history"]
