"""The loop over time, with steps simple enough to do by hand."""

from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops import tensorflow_scan
from keras_norm.ops.scan import exported_loops, loops_are_exported, loops_are_portable, scan
from keras_norm.ops.tensorflow_scan import BLOCK, STEPS

FORMS = ["unrolled", "one by one", "in blocks", "portable", "backend"]
TIMES = [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS + 1]

every_time = pytest.mark.parametrize("time", TIMES)


def draw(time, batch=2):
    return np.random.default_rng([time, batch]).normal(size=(time, batch, 3))


def sums(carry, xs):
    """Carry: the sum, and a count of steps; ys: the sum, and the squares over the batch."""
    (total, count), (x,) = carry, xs
    total = total + x
    return [total, count + 1.0], [total, tf.reduce_sum(x * x, axis=0)]


def plain_scan(step, carry, xs):
    """`keras.ops.scan` as documented; TensorFlow's own wants ys that look like the carry."""
    steps = []
    for t in range(len(xs[0])):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [tf.stack(y) for y in zip(*steps, strict=True)]


def run(scan, x):
    """The scan of `sums` over x (time, batch, 3)."""
    x = tf.convert_to_tensor(x)
    nothing = tf.zeros_like(x[0])
    return scan(sums, [x], [nothing, nothing], [nothing, nothing[0]])


def in_form(form):
    return partial(scan, unroll=form == "unrolled", training=form == "one by one")


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """`scan` in each of its forms."""
    if request.param == "backend":
        monkeypatch.setattr(keras.backend, "backend", lambda: "another")
        monkeypatch.setattr(keras.ops, "scan", plain_scan)
    with exported_loops("tflite") if request.param == "portable" else nullcontext():
        yield in_form(request.param)


@every_time
def test_every_form_gives_the_last_carry_and_all_ys(form, time):
    x = draw(time)
    (total, count), (totals, squares) = run(form, x)
    np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
    np.testing.assert_array_equal(total, totals[-1])
    np.testing.assert_array_equal(count, np.full((2, 3), time))
    np.testing.assert_allclose(squares, (x * x).sum(axis=1), atol=1e-12)


def test_a_step_may_have_no_ys(form):
    x = draw(STEPS + 1)
    (total,), ys = form(
        lambda carry, xs: ([carry[0] + xs[0]], []),
        [tf.constant(x)],
        [tf.zeros([2, 3], x.dtype)],
        [],
    )
    np.testing.assert_allclose(total, x.sum(axis=0), atol=1e-12)
    assert ys == []


# On TensorFlow ----------------------------------------------------------------------------------


def assert_differentiates(form, time, **compiled):
    """The gradient of the sum of all sums: x at t counts in every one from t on."""

    @tf.function(autograph=False, **compiled)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(run(in_form(form), x)[1][0])
        return tape.gradient(loss, x)

    expected = np.broadcast_to(np.arange(time, 0, -1.0)[:, None, None], (time, 2, 3))
    np.testing.assert_allclose(gradient(tf.constant(draw(time))), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("form", "time"), [("unrolled", 3), ("one by one", 3), *(("in blocks", n) for n in TIMES)]
)
def test_gradients(form, time):
    assert_differentiates(form, time)


@pytest.mark.parametrize("form", ["one by one", "in blocks"])
def test_gradients_under_xla(form):
    assert_differentiates(form, STEPS + 1, jit_compile=True)


@pytest.mark.parametrize("form", ["one by one", "in blocks", "portable"])
def test_one_graph_serves_every_time_and_batch(form):
    unknown = tf.TensorSpec((None, None, 3), "float64")
    graph = tf.function(partial(run, in_form(form)), input_signature=[unknown], autograph=False)
    with exported_loops("tflite") if form == "portable" else nullcontext():
        graph = graph.get_concrete_function()
    for time, batch in zip(TIMES, [2, 1, 3, 2, 1], strict=True):
        x = draw(time, batch)
        (total, _), (totals, _) = graph(tf.constant(x))
        np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
        np.testing.assert_array_equal(total, totals[-1])


def test_a_known_time_stays_known():
    for training in (False, True):
        graph = tf.function(partial(run, partial(scan, training=training)), autograph=False)
        traced = graph.get_concrete_function(tf.TensorSpec((STEPS + 1, None, 3)))
        assert [y.shape.rank and y.shape[0] for y in traced.structured_outputs[1]] == [9, 9]


def test_xla_gets_no_blocks(monkeypatch):
    """It would compile every step of a block anew."""
    calls = []
    one_by_one = tensorflow_scan.one_by_one
    monkeypatch.setattr(tensorflow_scan, "one_by_one", lambda *a: calls.append(a) or one_by_one(*a))
    x = tf.constant(draw(2 * STEPS))
    tf.function(partial(run, scan), autograph=False)(x)
    assert not calls
    tf.function(partial(run, scan), autograph=False, jit_compile=True)(x)
    assert calls


# For files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("time", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 4 * BLOCK - 5])
@pytest.mark.parametrize("known", [True, False])
def test_portable_loop_writes_block_by_block(time, known):
    x = draw(time)
    shape = tf.TensorSpec((time if known else None, 2, 3), "float64")
    with exported_loops("tflite"):
        graph = tf.function(partial(run, scan), input_signature=[shape]).get_concrete_function()
    (total, _), (totals, squares) = graph(tf.constant(x))
    np.testing.assert_allclose(totals, np.cumsum(x, axis=0), atol=1e-12)
    np.testing.assert_array_equal(total, totals[-1])
    np.testing.assert_allclose(squares, (x * x).sum(axis=1), atol=1e-12)


def operations():
    graph = tf.function(partial(run, scan), autograph=False)
    graph = graph.get_concrete_function(tf.TensorSpec((None, 2, 3), "float64")).graph
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {node.op for node in nodes}


def test_only_the_portable_loop_uses_no_tensor_list():
    """TFLite has none with a dynamic batch."""
    with exported_loops("tflite"):
        assert not [op for op in operations() if op.startswith("TensorList")]
    with exported_loops("saved_model"):
        assert [op for op in operations() if op.startswith("TensorList")]


def test_loops_are_exported_in_their_context_alone():
    found = [(loops_are_exported(), loops_are_portable())]
    with exported_loops("saved_model"):
        found.append((loops_are_exported(), loops_are_portable()))
        with exported_loops("tflite"):
            found.append((loops_are_exported(), loops_are_portable()))
    found.append((loops_are_exported(), loops_are_portable()))
    assert found == [(False, False), (True, False), (True, True), (False, False)]


def test_the_context_ends_with_an_error():
    with pytest.raises(RuntimeError, match="stop"), exported_loops("tflite"):
        raise RuntimeError("stop")
    assert not loops_are_exported()
