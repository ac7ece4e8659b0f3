"""Scans over time, with steps simple enough to compute by hand."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops import tensorflow_scan
from keras_norm.ops.scan import scan
from keras_norm.ops.tensorflow_scan import STEPS

IMPLEMENTATIONS = ["unrolled", "by step", "by block", "backend"]
TIMES = [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 1]

every_time = pytest.mark.parametrize("time", TIMES)


def draw(time, batch=2):
    return np.random.default_rng([time, batch]).normal(size=(time, batch, 3))


def sums(carry, xs):
    """Run one step: the carry is (sum, count of steps), the ys are (sum, sum of squares)."""
    (total, count), (x,) = carry, xs
    total = total + x
    return [total, count + 1.0], [total, tf.reduce_sum(x * x, axis=0)]


def reference_scan(step, carry, xs):
    """Scan as `keras.ops.scan` documents it.

    TensorFlow's own `keras.ops.scan` needs ys with the structure of the carry.
    """
    steps = []
    for t in range(len(xs[0])):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [tf.stack(y) for y in zip(*steps, strict=True)]


def run(scan, x):
    """Scan `sums` over x (time, batch, 3)."""
    x = tf.convert_to_tensor(x)
    zeros = tf.zeros_like(x[0])
    return scan(sums, [x], [zeros, zeros], [zeros, zeros[0]])


def scan_by(name):
    return partial(scan, unroll=name == "unrolled", training=name == "by step")


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request, monkeypatch):
    """`scan` with each of its implementations."""
    if request.param == "backend":
        monkeypatch.setattr(keras.backend, "backend", lambda: "another")
        monkeypatch.setattr(keras.ops, "scan", reference_scan)
    return scan_by(request.param)


@every_time
def test_every_implementation_returns_the_last_carry_and_all_ys(implementation, time):
    x = draw(time)
    (total, count), (totals, squares) = run(implementation, x)
    np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
    np.testing.assert_array_equal(total, totals[-1])
    np.testing.assert_array_equal(count, np.full((2, 3), time))
    np.testing.assert_allclose(squares, (x * x).sum(axis=1), atol=1e-12)


def test_a_step_may_have_no_ys(implementation):
    x = tf.constant(draw(STEPS + 1))
    (total,), ys = implementation(lambda c, xs: ([c[0] + xs[0]], []), [x], [0.0 * x[0]], [])
    np.testing.assert_allclose(total, tf.reduce_sum(x, axis=0), atol=1e-12)
    assert ys == []


@pytest.mark.parametrize(
    ("name", "time", "options"),
    [
        ("unrolled", 3, {}),
        ("by step", 3, {}),
        ("by block", STEPS - 1, {}),
        ("by block", STEPS, {}),
        ("by block", 2 * STEPS + 1, {}),
        ("by step", STEPS + 1, {"jit_compile": True}),
        ("by block", STEPS + 1, {"jit_compile": True}),
    ],
)
def test_gradients_are_exact(name, time, options):
    """The sum of all sums has x at t in it time - t times."""

    @tf.function(autograph=False, **options)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(run(scan_by(name), x)[1][0])
        return tape.gradient(loss, x)

    expected = np.broadcast_to(np.arange(time, 0, -1.0)[:, None, None], (time, 2, 3))
    np.testing.assert_allclose(gradient(tf.constant(draw(time))), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["by step", "by block"])
def test_one_graph_runs_at_every_time_and_batch(name):
    spec = tf.TensorSpec((None, None, 3), "float64")
    graph = tf.function(partial(run, scan_by(name)), input_signature=[spec], autograph=False)
    graph = graph.get_concrete_function()
    for time, batch in zip(TIMES, [2, 1, 3, 2, 1], strict=True):
        x = draw(time, batch)
        (total, _), (totals, _) = graph(tf.constant(x))
        np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
        np.testing.assert_array_equal(total, totals[-1])


def test_a_static_time_is_static_in_the_outputs():
    for training in (False, True):
        graph = tf.function(partial(run, partial(scan, training=training)), autograph=False)
        traced = graph.get_concrete_function(tf.TensorSpec((STEPS + 1, None, 3)))
        assert [y.shape.rank and y.shape[0] for y in traced.structured_outputs[1]] == [9, 9]


def test_under_xla_the_loop_runs_one_timestep_per_iteration(monkeypatch):
    """XLA would compile every step of a block separately."""
    calls = []
    by_step = tensorflow_scan.scan_by_step
    monkeypatch.setattr(tensorflow_scan, "scan_by_step", lambda *a: calls.append(a) or by_step(*a))
    x = tf.constant(draw(2 * STEPS))
    tf.function(partial(run, scan), autograph=False)(x)
    assert not calls
    tf.function(partial(run, scan), autograph=False, jit_compile=True)(x)
    assert calls
