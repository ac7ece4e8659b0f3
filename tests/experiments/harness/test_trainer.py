"""A training ends where validation says so, and a stopped one as if it had not been."""

import dataclasses
import functools
import json

import numpy as np
import pytest

from experiments.harness import trainer
from experiments.harness.study import Run
from experiments.harness.trainer import Trainer, values
from tests.experiments import made

BN = made.STUDY.arm("line", "BN")
RUN = Run(BN, 0.03, 1)


def train(folder, size=made.SIZE, work=made.STUDY.work):
    return Trainer(work, size, made.PARTS, functools.partial(made.build, BN, made.PARTS), folder)


def weighed(model, parts):
    return {"weight": float(np.abs(model.get_weights()[0]).sum())}


def test_stopped_and_resumed_equals_not_stopped(tmp_path, monkeypatch):
    """Dropout, moments of the optimizer, batch statistics and what was measured go on too."""
    monkeypatch.setattr(trainer, "SAVE_EVERY", 0.0)
    work = dataclasses.replace(made.STUDY.work, measure=weighed, every=1)
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
    assert not list(tmp_path.glob("*.npz"))


def test_the_same_seed_is_the_same_run_whatever_ran_before(tmp_path):
    one = train(tmp_path)
    first = [one.run(run) for run in (RUN, dataclasses.replace(RUN, seed=2), RUN)]
    assert first[0]["history"] == first[2]["history"] != first[1]["history"]


def scripted(tmp_path, errors, size):
    """A trainer whose validation has these errors, and whose test has none."""
    one, given = train(tmp_path, size), iter(errors)
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
def test_a_run_ends_when_validation_stops_improving(tmp_path, errors, ended, best):
    found = scripted(tmp_path, errors, made.SIZE)
    assert (found["ended"], found["best_round"]) == (ended, best)


def test_a_run_ends_after_an_hour(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "HOUR", 0.0)
    assert scripted(tmp_path, [4.0, 3.0], made.SIZE)["ended"] == "hour"


def test_the_weights_of_the_best_round_are_tested(tmp_path):
    one = train(tmp_path)
    found = one.run(RUN)
    assert found["validation"]["error"] == pytest.approx(min(found["history"]["error"]), abs=1e-5)
    outputs = one.model.predict(made.PARTS["test"][0], verbose=0)
    assert found["test"] == pytest.approx(made.score(outputs, made.PARTS["test"][1]))


def test_an_epoch_has_every_sample_once_and_the_next_another_order(tmp_path, monkeypatch):
    one, seen = train(tmp_path), []
    monkeypatch.setattr(one.model, "fit", lambda x, *_, **options: seen.append(x))
    for index in range(4):
        one._train(RUN, index)
    for epoch in (seen[:2], seen[2:]):
        rows = np.concatenate(epoch)
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(made.X[:64], axis=0))
    assert not np.array_equal(seen[0], seen[2])


@pytest.mark.parametrize(("level", "epochs"), [(3.5, 1.0), (0.1, 2.0)])
def test_epochs_to_a_level_and_all_where_it_is_never_reached(tmp_path, level, epochs):
    work = dataclasses.replace(made.STUDY.work, level=level)
    one, given = train(tmp_path, work=work), iter([4.0, 3.0, 3.1, 3.2])
    one._scores = lambda part: {"error": next(given) if part == "validation" else 0.0}
    assert one.run(RUN)["test"]["epochs"] == epochs


def test_what_is_measured_on_the_way_is_kept_with_its_round(tmp_path):
    """And so is what was measured of the best round, as a score of the test."""
    work = dataclasses.replace(made.STUDY.work, measure=weighed, every=2)
    found = train(tmp_path, work=work).run(RUN)
    assert [number for number, _ in found["measured"]] == [2, 4]
    weights = [scores["weight"] for _, scores in found["measured"]]
    assert weights[0] != weights[1]
    assert found["best_round"] == 4
    assert found["test"]["weight"] == weights[1]
    assert "measured" not in train(tmp_path).run(RUN)


def test_batch_statistics_are_computed_anew_before_each_validation(tmp_path, monkeypatch):
    one = train(tmp_path, work=dataclasses.replace(made.STUDY.work, recalibrated=True))
    learned = []
    fit = one.model.fit
    monkeypatch.setattr(one.model, "fit", lambda x, *a, **k: (learned.append(x), fit(x, *a, **k)))
    one._train(RUN, 0)
    dense, norm = one.model.layers[:2]
    np.testing.assert_allclose(norm.moving_mean, np.mean(dense(learned[0]), axis=0), atol=1e-6)


def test_a_model_without_batch_statistics_needs_none(tmp_path):
    work = dataclasses.replace(made.STUDY.work, recalibrated=True)
    arm = made.STUDY.arm("line", "none")
    build = functools.partial(made.build, arm, made.PARTS)
    assert Trainer(work, made.SIZE, made.PARTS, build, tmp_path).recalibrate is None
