"""Merged statistics of any parts are those of all data, to 1e-12 in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import assign_statistics, collect_statistics, merge_statistics
from keras_norm.recalibration.statistics_collector import StatisticsCollector
from tests.recalibration.models import model_of

RNG = np.random.default_rng(0)
ROWS, TIME = 9, 5
LENGTHS = RNG.permutation([0, 1, 2, 2, 3, 3, 4, 5, 5])  # a sequence of length 0 is fully masked
UNMASKED = np.arange(TIME) < LENGTHS[:, None]
X = np.where(UNMASKED[..., None], RNG.normal(3.0, 2.0, (ROWS, TIME, 3)), 0.0)


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Run models eagerly: tracing takes most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def masked_model(*layers, dtype="float64"):
    """Build a model that applies layers in turn to masked sequences."""
    inputs = keras.Input((None, 3), dtype=dtype)
    x = keras.layers.Masking(dtype=dtype)(inputs)
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, x)


def random_parts(parts, batch):
    """Divide the rows into parts, and each part into batches; return the rows of each batch."""
    cuts = np.sort(RNG.integers(0, ROWS + 1, parts - 1))
    divided = np.split(RNG.permutation(ROWS), cuts)
    return [np.split(part, range(batch, len(part), batch)) for part in divided]


DIVISIONS = {
    "one row in each part": random_parts(1, 1)[0],
    "an empty part": [[], *random_parts(2, 4), []],
    "random": random_parts(4, 3),
}
DIVISIONS["one row in each part"] = [[row] for row in DIVISIONS["one row in each part"]]


def collect_parts(model, parts):
    """Collect the statistics of each part with one clone, which takes less time."""
    collector = StatisticsCollector(model)
    return [collector([X[rows] for rows in part]) for part in parts]


@pytest.fixture(scope="module")
def parallel():
    """Build a model whose layers have inputs that depend on no other batch normalization."""
    options = {"dtype": "float64"}
    rnn = keras_norm.BatchNormSimpleRNN(2, max_timesteps=TIME, return_sequences=True, **options)
    layers = {
        "ours": keras_norm.BatchNormalization(name="ours", **options),
        "Keras": keras.layers.BatchNormalization(name="Keras", **options),
        "timesteps": keras_norm.TimestepBatchNormalization(4, name="timesteps", **options),
        "both": keras.layers.Bidirectional(rnn, name="both", **options),
    }
    inputs = keras.Input((None, 3), **options)
    shifted = keras.layers.Rescaling(1.0, 7.0, **options)(keras.layers.Masking(**options)(inputs))
    return keras.Model(inputs, [layer(shifted) for layer in layers.values()]), layers["both"]


def assert_moments(found, values, row=()):
    """Assert count, mean and variance of a layer, or of a row of it."""
    np.testing.assert_array_equal(found.count[row], len(values))
    np.testing.assert_allclose(found.mean[row], values.mean(axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.variance[row], values.var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("parts", DIVISIONS.values(), ids=DIVISIONS)
def test_statistics_do_not_depend_on_the_parts_and_batches(parallel, parts):
    """Timesteps 3 and 4 share a row. A timestep with one sequence in a batch counts.

    The kernel norms are those of a bidirectional layer. The layers read 7.0 at masked positions.
    """
    (model, both), shifted = parallel, X + 7.0
    found = merge_statistics(collect_parts(model, parts)).layers
    for name in ("ours", "Keras"):
        assert_moments(found[name], shifted[UNMASKED])
    for t in range(3):
        assert_moments(found["timesteps"], shifted[UNMASKED[:, t], t], row=t)
    assert_moments(found["timesteps"], shifted[:, 3:][UNMASKED[:, 3:]], row=3)
    # Timestep 0 of the backward layer is the last unmasked timestep.
    backward = np.array(
        [np.roll(x[::-1], n - TIME, axis=0) for x, n in zip(shifted, LENGTHS, strict=True)]
    )
    for name, x, layer in (
        ("forward", shifted, both.forward_layer),
        ("backward", backward, both.backward_layer),
    ):
        (path,) = (p for p in found if name in p and p.endswith("kernel_norm"))
        projected = x @ np.asarray(layer.cell.kernel, "float64")
        for t in range(TIME):
            assert_moments(found[path], projected[UNMASKED[:, t], t], row=t)


def test_a_single_sequence_counts_in_inner_functional_models():
    """A norm behind another one still needs two sequences, also with a layer between both."""
    first, last = (keras_norm.TimestepBatchNormalization(TIME, dtype="float64") for _ in range(2))
    layers = [keras.Sequential([first]), keras.layers.Rescaling(2.0, dtype="float64"), last]
    model = model_of(keras.Sequential(layers), shape=(TIME, 3))
    (found,) = collect_parts(model, [[np.arange(8), [8]]])
    first, behind = found.layers.values()
    np.testing.assert_array_equal(first.count, 9)
    np.testing.assert_array_equal(behind.count, 8)


def test_a_single_sequence_counts_only_for_the_kernel_norm_of_a_recurrence():
    rnn = keras_norm.BatchNormSimpleRNN(2, max_timesteps=TIME, dtype="float64")
    (found,) = collect_parts(model_of(rnn, shape=(TIME, 3)), [[np.arange(8), [8]]])
    counts = {path.split("/")[-1]: layer.count[1:] for path, layer in found.layers.items()}
    np.testing.assert_array_equal(counts["kernel_norm"], 9)
    np.testing.assert_array_equal(counts["recurrent_norm"], 8)


def test_noise_does_not_depend_on_the_parts():
    """Each batch has its own noise, also if a part has it twice."""
    norm = keras_norm.BatchNormalization(dtype="float64")
    model = masked_model(keras.layers.GaussianNoise(1.0, dtype="float64"), norm)
    rows = [np.argsort(LENGTHS)[start::3] for start in range(3)]
    whole, *parts, twice = collect_parts(model, [rows, rows[1:], rows[:1], [rows[0], rows[0]]])
    (found,), (expected,) = (s.layers.values() for s in (merge_statistics(parts), whole))
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-12)
    means = [s.layers[path].mean for s in (parts[1], twice) for path in s.layers]
    assert np.abs(means[0] - means[1]).max() > 0.01


def deep_layers(dtype):
    options = {"dtype": dtype}
    rnn = keras_norm.BatchNormSimpleRNN(2, max_timesteps=TIME, return_sequences=True, **options)
    return [
        keras_norm.TimestepBatchNormalization(TIME, **options),
        keras.layers.Bidirectional(rnn, **options),
        keras.layers.BatchNormalization(**options),
        keras_norm.BatchNormSimpleRNN(2, max_timesteps=3, **options),
        keras_norm.BatchNormalization(unbiased_variance=True, debias=True, **options),
    ]


@pytest.mark.parametrize("dtype", ["float64", "mixed_float16"])
def test_statistics_of_stacked_layers_do_not_depend_on_the_order_of_the_batches(dtype):
    """In some batches a single sequence reaches the last timestep.

    Eager recurrences take seconds in float16, so they are left out.
    """
    layers = deep_layers(dtype)[:: 1 if dtype == "float64" else 2]
    model = masked_model(*layers, dtype="float64" if dtype == "float64" else None)
    batches = [np.argsort(LENGTHS)[start::3] for start in range(3)]
    assert 1 in [UNMASKED[rows, -1].sum() for rows in batches]
    (whole,) = collect_parts(model, [batches])
    merged = merge_statistics(collect_parts(model, [[batches[i]] for i in (2, 0, 1)]))
    assert (merged.batches, merged.weights) == (whole.batches, whole.weights)
    for path, layer in whole.layers.items():
        found = merged.layers[path]
        np.testing.assert_array_equal(found.count, layer.count)
        np.testing.assert_array_equal(found.batches, layer.batches)
        np.testing.assert_allclose(found.mean, layer.mean, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.variance, layer.variance, rtol=1e-12, atol=1e-14)


def stack_of_norms():
    """Build a model of three batch normalizations with a nonlinearity before each."""
    dense = [keras.layers.Dense(4, "tanh", dtype="float64") for _ in range(3)]
    norms = [keras_norm.BatchNormalization(name=f"norm{i}", dtype="float64") for i in range(3)]
    layers = [layer for pair in zip(dense, norms, strict=True) for layer in pair]
    inputs = keras.Input((3,), dtype="float64")
    return keras.Model(inputs, keras.Sequential(layers)(inputs)), layers


@pytest.mark.parametrize("batch_size", [7, 20])
def test_layer_by_layer_each_layer_has_the_statistics_of_inference(batch_size):
    """The statistics do not depend on the batches."""
    model, layers = stack_of_norms()
    x = RNG.normal(size=(20, 3))
    assert keras_norm.recalibrate(model, x, batch_size=batch_size, layer_by_layer=True) > 0
    for layer in layers:
        if "norm" in layer.name:
            np.testing.assert_allclose(layer.moving_mean, np.mean(x, axis=0), rtol=1e-12)
            np.testing.assert_allclose(layer.moving_variance, np.var(x, axis=0), rtol=1e-12)
        x = np.asarray(layer(x, training=False) if "norm" in layer.name else layer(x))


def test_layer_by_layer_the_norms_of_a_recurrence_share_a_pass_in_the_order_of_the_calls():
    norms = [keras_norm.BatchNormalization(name=name, dtype="float64") for name in "zya"]
    rnn = keras_norm.BatchNormSimpleRNN(2, max_timesteps=TIME, name="m", dtype="float64")
    collector = StatisticsCollector(masked_model(*norms[:2], rnn, norms[2]))
    collector([X])
    cell = "m/batch_norm_simple_rnn_cell"
    recurrence = [f"{cell}/kernel_norm", f"{cell}/recurrent_norm"]
    assert list(map(sorted, collector.groups())) == [["z"], ["y"], recurrence, ["a"]]


def test_layer_by_layer_in_steps_equals_one_call():
    """As on several machines: collect one layer of all parts, merge, assign, and go on."""
    (one, _), (steps, _) = stack_of_norms(), stack_of_norms()
    steps.set_weights(one.get_weights())
    x = RNG.normal(size=(20, 3))
    keras_norm.recalibrate(one, x, layer_by_layer=True)
    for path in collect_statistics(steps, x).layers:
        parts = [collect_statistics(steps, part, layers=[path]) for part in (x[:7], x[7:])]
        assign_statistics(steps, merge_statistics(parts))
    for found, expected in zip(steps.get_weights(), one.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
