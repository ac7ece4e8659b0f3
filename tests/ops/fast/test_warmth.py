"""Whether a shape comes by often enough to be compiled for."""

import pytest
import tensorflow as tf

from keras_norm.ops.fast import warmth


@pytest.fixture
def is_hot(request, monkeypatch):
    monkeypatch.setattr(warmth, "HOT", 100)

    @tf.function
    def ask(batch, time):
        return warmth.is_hot(request.node.name, batch, time)

    return lambda batch, time: bool(ask(tf.constant(batch), tf.constant(time)))


def test_timesteps_of_a_shape_add_up(is_hot):
    assert [is_hot(8, 40) for _ in range(4)] == [False, False, True, True]


def test_shapes_are_counted_apart(is_hot):
    assert [is_hot(batch, 60) for batch in (1, 2, 1, 2)] == [False, False, True, True]


def test_a_long_sequence_is_hot_at_once(is_hot):
    assert is_hot(1, 100)


def test_a_new_shape_takes_the_place_of_the_coldest(is_hot):
    for batch in range(1, warmth.SHAPES + 1):
        is_hot(batch, 60 if batch > 1 else 50)
    assert not is_hot(99, 60)
    assert is_hot(99, 60)
    assert not is_hot(1, 50)


def test_no_more_shapes_are_hot_than_there_are_places(is_hot):
    for batch in range(1, warmth.SHAPES + 1):
        assert is_hot(batch, 100)
    assert not is_hot(99, 100)
    assert all(is_hot(batch, 1) or is_hot(batch, 100) for batch in range(1, warmth.SHAPES + 1))
