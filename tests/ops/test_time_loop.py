"""The loop over time, with steps simple enough to do by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.tensorflow_scan import BLOCK
from keras_norm.ops.time_loop import portable_loops, time_loop

X = np.arange(1.0, 9.0).reshape(4, 2, 1)  # (time, batch, 1): 1 3 5 7 and 2 4 6 8
MASK = np.array([[0, 1], [1, 0], [0, 0], [1, 1]], bool)[..., None]
FORMS = ["unrolled", "fast", "portable", "backend scan"]


def running_sum(xs, states, alive):
    """States: the sum, and a count of steps; collected: the squares over the batch."""
    total, count = states
    (x,) = xs
    return [total + x, count + 1.0], [tf.reduce_sum(x * x, axis=0)]


def plain_scan(step, carry, xs):
    """`keras.ops.scan` as documented; TensorFlow's own wants ys that look like the carry."""
    steps = []
    for t in range(len(xs[0])):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [tf.stack(y) for y in zip(*steps, strict=True)]


def run(form, monkeypatch=None, step=running_sum, inputs=X, **options):
    inputs = tf.convert_to_tensor(inputs)
    states = [tf.zeros((2, 1), "float64"), tf.zeros((2, 1), "float64")]
    options = {"collected_like": [tf.zeros((1,), "float64")], **options}
    if form == "portable":
        with portable_loops():
            return time_loop(step, [inputs], states, **options)
    if form == "backend scan":
        monkeypatch.setattr(keras.backend, "backend", lambda: "another")
        monkeypatch.setattr(keras.ops, "scan", plain_scan)
    return time_loop(step, [inputs], states, unroll=form == "unrolled", **options)


def columns(tensor):
    """(time, batch, 1) as one list for each sequence."""
    return np.asarray(tensor)[..., 0].T.tolist()


every_form = pytest.mark.parametrize("form", FORMS)


@every_form
def test_outputs_states_and_what_steps_collect(form, monkeypatch):
    result = run(form, monkeypatch)
    assert columns(result.outputs) == [[1, 4, 9, 16], [2, 6, 12, 20]]
    assert columns(result.last_output[None]) == [[16], [20]]
    assert columns(result.states[0][None]) == [[16], [20]]
    assert columns(result.states[1][None]) == [[4], [4]]
    assert result.collected[0][:, 0].numpy().tolist() == [5, 25, 61, 113]


@every_form
def test_masked_steps_keep_states_and_repeat_outputs(form, monkeypatch):
    result = run(form, monkeypatch, mask=tf.constant(MASK))
    assert columns(result.outputs) == [[0, 3, 3, 10], [2, 2, 2, 10]]
    assert columns(result.states[0][None]) == [[10], [10]]
    assert columns(result.states[1][None]) == [[2], [2]]
    assert len(result.states) == 2


@every_form
def test_masked_steps_may_give_zeros(form, monkeypatch):
    result = run(form, monkeypatch, mask=tf.constant(MASK), zero_output_for_mask=True)
    assert columns(result.outputs) == [[0, 3, 0, 10], [2, 0, 0, 10]]
    assert columns(result.states[0][None]) == [[10], [10]]


@every_form
def test_last_output_alone(form, monkeypatch):
    result = run(form, monkeypatch, return_sequences=False, mask=tf.constant(MASK))
    assert result.outputs is None
    assert columns(result.last_output[None]) == [[10], [10]]
    assert result.collected[0].shape == (4, 1)


@every_form
def test_steps_see_the_mask(form, monkeypatch):
    def step(xs, states, alive):
        return states, [tf.reduce_sum(tf.cast(alive, "float64"), axis=0)]

    result = run(form, monkeypatch, step=step, mask=tf.constant(MASK))
    assert result.collected[0][:, 0].numpy().tolist() == [1, 1, 0, 2]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "portable"])
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_gradients(form, mask, monkeypatch):
    """Of the sum of all outputs: x at t counts in every output from t on."""
    x = tf.constant(X)
    mask = None if mask is None else tf.constant(mask)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(run(form, monkeypatch, inputs=x, mask=mask).outputs)
    expected = [[4, 3, 2, 1], [4, 3, 2, 1]] if mask is None else [[0, 3, 0, 1], [4, 0, 0, 1]]
    assert columns(tf.convert_to_tensor(tape.gradient(loss, x))) == expected


@every_form
def test_nothing_to_collect(form, monkeypatch):
    def step(xs, states, alive):
        return running_sum(xs, states, alive)[0], []

    result = run(form, monkeypatch, step=step, collected_like=[])
    assert columns(result.outputs) == [[1, 4, 9, 16], [2, 6, 12, 20]]
    assert result.collected == []


@pytest.mark.parametrize("form", ["fast", "portable"])
def test_unknown_time_and_batch(form):
    def loop(x):
        states = [tf.zeros_like(x[0]), tf.zeros_like(x[0])]
        return time_loop(running_sum, [x], states, collected_like=[x[0, 0]]).outputs

    unknown = tf.TensorSpec((None, None, 1), "float64")
    if form == "portable":
        with portable_loops():
            graph = tf.function(loop, input_signature=[unknown]).get_concrete_function()
    else:
        graph = tf.function(loop, input_signature=[unknown]).get_concrete_function()
    for time, batch in [(4, 2), (1, 1), (3, 1)]:
        x = X[:time, :batch]
        np.testing.assert_array_equal(graph(tf.constant(x)), np.cumsum(x, axis=0))


@pytest.mark.parametrize("time", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 4 * BLOCK - 5])
@pytest.mark.parametrize("known", [True, False])
def test_portable_loop_writes_block_by_block(time, known):
    x = np.random.default_rng(0).normal(size=(time, 2, 3))

    def loop(x):
        states = [tf.zeros((2, 3), "float64"), tf.zeros((2, 3), "float64")]
        result = time_loop(running_sum, [x], states, collected_like=[x[0, 0]])
        return result.outputs, result.states[0], result.collected[0]

    shape = tf.TensorSpec((time if known else None, 2, 3), "float64")
    with portable_loops():
        graph = tf.function(loop, input_signature=[shape]).get_concrete_function()
    outputs, last, collected = graph(tf.constant(x))
    np.testing.assert_allclose(outputs, np.cumsum(x, axis=0), atol=1e-12)
    np.testing.assert_array_equal(last, outputs[-1])
    np.testing.assert_allclose(collected, (x * x).sum(axis=1), atol=1e-12)


def operations(form):
    def loop(x):
        return run(form, inputs=x).outputs

    graph = tf.function(loop).get_concrete_function(tf.TensorSpec((None, 2, 1), "float64")).graph
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return {node.op for node in nodes}


def test_portable_loop_uses_no_tensor_list():
    """TFLite has none with a dynamic batch."""
    assert not [op for op in operations("portable") if op.startswith("TensorList")]
    assert [op for op in operations("fast") if op.startswith("TensorList")]


def test_portable_loops_end_with_their_context():
    with portable_loops():
        pass
    assert [op for op in operations("fast") if op.startswith("TensorList")]


def test_portable_loops_end_with_an_error():
    with pytest.raises(RuntimeError, match="stop"), portable_loops():
        raise RuntimeError("stop")
    assert [op for op in operations("fast") if op.startswith("TensorList")]
