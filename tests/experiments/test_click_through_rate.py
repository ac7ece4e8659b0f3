"""Rows of other formats go the whole way: read, hashed, learned, validated and tested."""

import functools

import numpy as np
import pytest

from experiments import movielens
from experiments.click_through_rate import BOTH, STUDY, TASK, build
from experiments.harness import click_data
from experiments.harness.study import Run
from experiments.harness.trainer import Trainer


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (click_data.criteo, "criteo_sample.txt"),
        (click_data.criteo, "criteo_train.tiny.csv"),
        (click_data.avazu, "avazu_sample.txt"),
    ],
)
def test_the_samples_of_criteo_and_avazu_go_the_whole_way(read, name, data, tmp_path):
    ids, labels = read(data / "ctr_samples" / name)
    rows = np.array_split(np.random.default_rng(0).permutation(len(labels)), 3)
    parts = {
        part: (ids[r], labels[r])
        for part, r in zip(("training", "validation", "test"), rows, strict=True)
    }
    arm = STUDY.arm(TASK, f"LN; {BOTH}")
    trainer = Trainer(
        STUDY.work, STUDY.smoke, parts, functools.partial(build, arm, parts), tmp_path
    )
    found = trainer.run(Run(arm, 1e-3, 0))["test"]
    assert np.isfinite(list(found.values())).all()
    assert 0 < found["log_loss"] < 1


def test_a_rating_stands_among_those_of_its_user_by_time():
    users, times = np.array(["b", "a", "b", "b", "a"]), np.array([30, 5, 10, 20, 4])
    np.testing.assert_allclose(movielens.places(users, times), [2 / 3, 1 / 2, 0, 1 / 3, 0])


def test_what_is_learned_is_earlier_than_what_is_tested(data):
    path = data / "movielens_latest_small" / "ml-latest-small.zip"
    fields, labels, times = click_data.movielens(path)
    places = movielens.places(fields[:, 0], times)
    for user in np.unique(fields[:, 0])[:20]:
        its = fields[:, 0] == user
        learned, tested = (times[its & part] for part in (places < 0.8, places >= 0.9))
        assert learned.max() <= tested.min()
    parts = movielens.parted(fields, labels, places, None)
    assert [len(labels) for _, labels in parts.values()] == [
        np.sum(places < 0.8),
        np.sum((places >= 0.8) & (places < 0.9)),
        np.sum(places >= 0.9),
    ]
    few = movielens.parted(fields, labels, places, 50)
    np.testing.assert_array_equal(few["test"][1], parts["test"][1][-50:])
