"""Recalibrating moving statistics: results, supported data, and refused data."""

import itertools
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.recalibration.recalibrate import Recalibrator
from tests.keras_version import needs_keras, needs_renorm

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, size=(70, 4)).astype("float32")


@pytest.fixture
def traced():
    """Trace the model, as users do."""


@pytest.fixture(autouse=True)
def eager(request):
    """Run models eagerly, unless a test uses `traced`: tracing takes most of the time."""
    tf.config.run_functions_eagerly("traced" not in request.fixturenames)
    yield
    tf.config.run_functions_eagerly(False)


def model_of(*layers, shape=(4,)):
    return keras.Sequential([keras.Input(shape), *layers])


def assert_has_statistics_of(layer, x, row=(), rtol=1e-5, ddof=0):
    """Assert that the moving statistics, or a row of them, are the statistics of x.

    The statistics of x are computed over all but the last axis.
    """
    x = np.asarray(x, "float64").reshape(-1, x.shape[-1])
    np.testing.assert_allclose(layer.moving_mean[row], x.mean(axis=0), rtol=rtol, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance[row], x.var(axis=0, ddof=ddof), rtol=rtol)


# Statistics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras_norm.BatchNormalization(),
        lambda: keras_norm.BatchNormalization(momentum=None),
        lambda: keras_norm.BatchNormalization(debias=True),
        lambda: keras_norm.BatchNormalization(virtual_batch_size=5),
        lambda: keras_norm.BatchNormalization(unbiased_variance=True),
        lambda: keras_norm.BatchNormalization(renorm=True),
        pytest.param(lambda: keras.layers.BatchNormalization(renorm=True), marks=needs_renorm),
        lambda: keras.layers.BatchNormalization(),
    ],
    ids=["moving", "mean", "debiased", "ghosts", "unbiased", "renorm", "Keras renorm", "Keras"],
)
@pytest.mark.usefixtures("traced")
@pytest.mark.filterwarnings("error:__array__:DeprecationWarning")
def test_statistics_become_those_of_the_data(layer):
    """The last of the three batches has 6 samples, the others 32. NaN statistics are replaced."""
    layer = layer()
    model = model_of(keras.layers.Dropout(0.5), layer)
    layer.moving_mean.assign([np.nan, np.inf, 0.0, 0.0])
    layer.moving_variance.assign([1.0, np.nan, np.inf, 1.0])
    assert keras_norm.recalibrate(model, X) == 3
    assert_has_statistics_of(layer, X, ddof=int(getattr(layer, "unbiased_variance", False)))


def test_a_last_batch_of_one_sample_counts_as_one_sample():
    layer = keras_norm.BatchNormalization()
    x = np.concatenate([X[:64], np.full((1, 4), -90.0, "float32")])
    keras_norm.recalibrate(model_of(layer), x)
    assert_has_statistics_of(layer, x)


class Batches(keras.utils.PyDataset):
    """A dataset that has a batch for every index."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[30 * index : 30 * index + 30], np.zeros(30)


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, index):
        return X


@pytest.mark.parametrize(
    ("data", "batches"),
    [
        ([(X[:30],), (X[30:60],)], 2),
        ([(X[:30], np.zeros(30)), (X[30:60], np.zeros(30))], 2),
        ([X[:0], X[:40], X[:0], X[40:60]], 2),
        (tf.data.Dataset.from_tensor_slices(X[:60]).batch(37), 2),
        (Batches(), 2),
        (tf.constant(X[:60]), 2),
        (keras.Variable(X[:60]), 2),
        (X[:60], 2),
    ],
    ids=[
        "inputs",
        "targets",
        "empty batches",
        "tf.data",
        "PyDataset",
        "tensor",
        "variable",
        "array",
    ],
)
def test_arrays_and_iterables_of_batches_are_data(data, batches):
    layer = keras.layers.BatchNormalization()
    assert keras_norm.recalibrate(model_of(layer), data) == batches
    assert_has_statistics_of(layer, X[:60])


def two_input_model(structure):
    """Make a model of the inputs a and b, in a list, a dict or both, with a batch normalization."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    outputs = keras_norm.BatchNormalization()(keras.layers.add([a, b]))
    inputs = {"list": [a, b], "dict": {"a": a, "b": b}, "nested": {"p": [a], "q": {"r": b}}}
    return keras.Model(inputs[structure], outputs)


@pytest.mark.parametrize(
    ("structure", "data"),
    [
        ("list", [tf.constant(X), 2 * X]),
        ("dict", {"a": X, "b": 2 * X}),
        ("nested", {"p": [X], "q": {"r": 2 * X}}),
    ],
)
def test_the_arrays_of_all_inputs_are_split_together(structure, data):
    model = two_input_model(structure)
    assert keras_norm.recalibrate(model, data) == 3
    assert_has_statistics_of(model.layers[-1], 3 * X)


def test_steps_limits_the_batches():
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(model_of(layer), X, steps=1) == 1
    assert_has_statistics_of(layer, X[:32])


@pytest.mark.usefixtures("traced")
def test_masked_positions_do_not_count():
    layer = keras_norm.TimestepBatchNormalization(3)
    model = keras.Sequential([keras.Input((None, 4)), keras.layers.Masking(), layer])
    x = RNG.normal(3.0, 2.0, (50, 3, 4)).astype("float32")
    lengths = np.append(RNG.integers(1, 4, 32), np.full(18, 3))
    unmasked = np.arange(3) < lengths[:, None]
    keras_norm.recalibrate(model, np.where(unmasked[..., None], x, 0.0))
    for t in range(3):
        assert_has_statistics_of(layer, x[unmasked[:, t], t], row=t)


def test_a_fully_masked_batch_does_not_count():
    layer = keras_norm.BatchNormalization()
    model = model_of(keras.layers.Masking(), layer, shape=(1, 4))
    keras_norm.recalibrate(model, [X[:30, None], np.zeros((30, 1, 4), "float32"), X[30:, None]])
    assert_has_statistics_of(layer, X)


def test_statistics_of_a_timestep_are_those_of_the_sequences_that_reach_it():
    """The batches have 9, 3 and 9 sequences of different lengths.

    The moving statistics before the call do not change the result. Rows without data keep theirs.
    """
    both = keras.layers.Bidirectional(keras_norm.BatchNormSimpleRNN(5, max_timesteps=6))
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Masking(), both])
    batches = [RNG.normal(size=(n, time, 3)) for n, time in ((9, 2), (3, 4), (9, 4))]
    batches[2][:4, 2:] = 0.0
    layers = [(both.forward_layer.cell, batches)]
    backward = [batch[:, ::-1].copy() for batch in batches]
    backward[2][:4] = np.roll(backward[2][:4], -2, axis=1)  # timestep 0 is the last unmasked one
    layers.append((both.backward_layer.cell, backward))
    for cell, _ in layers:
        before = np.where(np.arange(6)[:, None] < 4, 99.0, 7.0) * np.ones(5)
        cell.kernel_norm.moving_mean.assign(before)
    keras_norm.recalibrate(model, [(batch.astype("float32"),) for batch in batches])
    for cell, sequences in layers:
        norm = cell.kernel_norm
        np.testing.assert_array_equal(norm.update_count, [3, 3, 2, 2, 0, 0])
        for t in range(4):
            unmasked = [b[b[:, t].any(axis=-1), t] for b in sequences if b.shape[1] > t]
            projected = np.concatenate(unmasked) @ np.asarray(cell.kernel, "float64")
            assert_has_statistics_of(norm, projected, row=t, rtol=1e-4)
        np.testing.assert_array_equal(norm.moving_mean[4:], 7.0)


def test_a_cell_in_keras_rnn_gets_the_statistics_of_every_timestep():
    """Timesteps that share a row are merged."""
    cell = keras_norm.BatchNormSimpleRNNCell(4, max_timesteps=2)
    x = RNG.normal(size=(64, 6, 3)) + 5 * np.arange(6)[:, None]
    keras_norm.recalibrate(model_of(keras.layers.RNN(cell), shape=(6, 3)), x)
    projected = x @ np.asarray(cell.kernel)
    for row, steps in ((0, projected[:, :1]), (1, projected[:, 1:])):
        assert_has_statistics_of(cell.kernel_norm, steps, row=row, rtol=1e-4)


def test_one_row_for_all_timesteps_gets_the_statistics_of_all_timesteps():
    """A batch of one sequence has such statistics."""
    layer = keras_norm.NormGRU(3, norm=keras_norm.BatchNormalization())
    batches = [RNG.normal(size=(n, time, 4)) + n for n, time in ((8, 4), (4, 2), (1, 6))]
    data = [(batch.astype("float32"),) for batch in batches]
    assert keras_norm.recalibrate(model_of(layer, shape=(None, 4)), data) == 3
    kernel = np.asarray(layer.cell.kernel, "float64")[:, :6]
    projected = np.concatenate([(batch @ kernel).reshape(-1, 6) for batch in batches])
    assert_has_statistics_of(layer.cell.kernel_norm, projected, rtol=1e-4)


def test_a_norm_shared_by_two_inputs_gets_the_statistics_of_both():
    a, b = keras.Input((4,)), keras.Input((4,))
    for layer in (keras.layers.BatchNormalization(), keras_norm.BatchNormalization()):
        model = keras.Model([a, b], keras.layers.Concatenate()([layer(a), layer(b)]))
        keras_norm.recalibrate(model, [X, X - 9.0])
        assert_has_statistics_of(layer, np.concatenate([X, X - 9.0]))


def test_a_norm_in_time_distributed_gets_the_statistics_of_all_timesteps_and_lengths():
    layer = keras_norm.BatchNormalization()
    model = model_of(keras.layers.TimeDistributed(layer), shape=(None, 4))
    batches = [RNG.normal(size=(10, n, 4)) + n + np.arange(n)[:, None] for n in (3, 5, 2)]
    keras_norm.recalibrate(model, batches)
    assert_has_statistics_of(layer, np.concatenate([b.reshape(-1, 4) for b in batches]))


@pytest.mark.usefixtures("traced")
def test_equal_samples_have_the_variance_of_gaussian_noise():
    layer = keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), keras.layers.GaussianNoise(0.5), layer])
    keras_norm.recalibrate(model, np.ones((6400, 4), "float32"))
    np.testing.assert_allclose(layer.moving_variance, 0.25, rtol=0.1)


def test_a_layer_called_with_training_false_keeps_its_statistics():
    class Base(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.frozen = keras_norm.BatchNormalization(momentum=None)
            self.own = keras_norm.BatchNormalization(momentum=None)

        def call(self, x, training=None):
            return self.own(self.frozen(x, training=False), training=training)

    model = Base()
    model(X)
    keras_norm.recalibrate(model, X)
    assert int(model.own.update_count) == 3
    assert int(model.frozen.update_count) == 0


def test_a_frozen_slot_normalizes_with_its_moving_statistics_during_recalibration():
    x = RNG.normal(5.0, 3.0, size=(64, 5, 4)).astype("float32")
    lstm, after = keras_norm.BatchNormLSTM(3, max_timesteps=5), keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((5, 4)), lstm, after])
    lstm.cell.kernel_norm.trainable = False
    keras_norm.recalibrate(model, x)
    batches = [lstm(batch, training=True) for batch in (x[:32], x[32:])]
    assert_has_statistics_of(after, np.concatenate(batches), rtol=1e-4)


@pytest.mark.parametrize("package", [keras_norm, pytest.param(keras.layers, marks=needs_renorm)])
def test_training_continues_from_the_recalibrated_variance_with_renorm(package):
    layer = package.BatchNormalization(renorm=True)
    model = keras.Sequential([keras.Input((4,)), layer])
    keras_norm.recalibrate(model, 10.0 * X)
    np.testing.assert_allclose(layer.moving_stddev, np.std(10.0 * X, axis=0), rtol=1e-3)
    before = layer.moving_variance.numpy()
    model(10.0 * X, training=True)
    np.testing.assert_allclose(layer.moving_variance, before, rtol=0.01)


def test_a_layer_after_a_renorm_layer_gets_the_statistics_of_inference():
    """The averages of the renorm layer are not trained yet, so renorm would change its output."""
    layer = keras_norm.BatchNormalization()
    first = keras_norm.BatchNormalization(renorm=True)
    keras_norm.recalibrate(keras.Sequential([keras.Input((4,)), first, layer]), X[:32])
    assert_has_statistics_of(layer, np.asarray(first(X[:32])), rtol=1e-3)


@pytest.mark.parametrize("package", [keras_norm, keras.layers])
def test_statistics_keep_their_digits_under_mixed_float16(package):
    """The inputs are float16; variances beyond the range of float16 are finite in float32."""
    layer = package.BatchNormalization(dtype="mixed_float16")
    x = (200.0 * X).astype("float16")
    keras_norm.recalibrate(model_of(layer), x.astype("float32"))
    assert np.max(layer.moving_variance) > np.finfo("float16").max
    # Keras' layer computes the mean and variance in float16.
    assert_has_statistics_of(layer, x, rtol=1e-5 if package is keras_norm else 1e-3)


def test_only_the_statistics_of_layers_that_are_not_frozen_change():
    frozen = keras_norm.BatchNormalization(trainable=False, name="frozen")
    noise, dropout = keras.layers.GaussianNoise(0.1), keras.layers.Dropout(0.5)
    norm = keras_norm.BatchNormalization(debias=True, name="norm")
    model = model_of(frozen, noise, dropout, keras.layers.Dense(3), norm)
    before = {v.path: keras.ops.convert_to_numpy(v) for v in model.variables}
    keras_norm.recalibrate(model, X)
    changed = {v.path for v in model.variables if (before[v.path] != np.asarray(v)).any()}
    assert changed == {v.path for v in norm.non_trainable_variables}


# Models -----------------------------------------------------------------------------------------


class Momentum(keras.layers.Layer):
    """A custom layer whose arguments have names like those of BatchNormalization and Dropout."""

    def __init__(self, momentum, dropout_scale, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.dropout_scale = momentum, dropout_scale

    def call(self, x):
        return x * self.momentum * self.dropout_scale


def test_a_custom_layer_keeps_its_momentum():
    """Only the momentum of batch normalizations is set to 0 in the clone."""
    layer = keras_norm.BatchNormalization()
    keras_norm.recalibrate(model_of(Momentum(0.9, 2.0), layer), X)
    assert_has_statistics_of(layer, 1.8 * X)


def test_two_custom_classes_with_one_name_are_refused():
    class UnitNormalization(keras.layers.Layer):
        def call(self, x):
            return x / keras.ops.max(keras.ops.abs(x), -1, keepdims=True)

    def doubled():
        class Block(keras.layers.Layer):
            def call(self, x):
                return x

        return Block()

    layer = keras_norm.BatchNormalization()
    layers = [UnitNormalization(), layer, keras.layers.UnitNormalization()]
    keras_norm.recalibrate(keras.Sequential([keras.Input((4,)), *layers]), X)
    assert_has_statistics_of(layer, X / np.abs(X).max(axis=1, keepdims=True), rtol=1e-4)
    model = keras.Sequential([keras.Input((4,)), doubled(), doubled(), layer])
    with pytest.raises(ValueError, match="both named 'Block'"):
        keras_norm.recalibrate(model, X)


@needs_keras(3, 13, "Keras 3.10 cannot concatenate masked and unmasked inputs")
def test_a_model_that_concatenates_masked_inputs_is_supported():
    """Keras adds a layer to the clone of such a model."""
    ids, features = keras.Input((None,), dtype="int32"), keras.Input((None, 2))
    embedded = keras.layers.Embedding(5, 2, mask_zero=True)(ids)
    joined = keras.layers.Concatenate()([embedded, features])
    norm = keras_norm.BatchNormalization()
    model = keras.Model([ids, features], keras_norm.NormGRU(2)(norm(joined)))
    data = [np.ones((8, 3), "int32"), RNG.normal(4.0, 1.0, (8, 3, 2)).astype("float32")]
    keras_norm.recalibrate(model, data)
    np.testing.assert_allclose(norm.moving_mean[2:], data[1].mean(axis=(0, 1)), rtol=1e-4)


def test_an_inner_model_may_be_compiled_with_a_custom_loss():
    def custom_loss(y, prediction):
        return keras.ops.mean(y - prediction)

    inner = model_of(layer := keras_norm.BatchNormalization())
    inner.compile("sgd", custom_loss)
    keras_norm.recalibrate(keras.Sequential([keras.Input((4,)), inner]), X)
    assert_has_statistics_of(layer, X)


def test_data_for_a_stateful_model_are_split_into_batches_of_its_batch_size():
    layer = keras_norm.BatchNormalization()
    rows = keras.layers.Reshape((1, 4))
    inputs = keras.Input(batch_shape=(16, 4))
    hidden = keras.layers.SimpleRNN(2, stateful=True)(rows(layer(inputs)))
    assert keras_norm.recalibrate(keras.Model(inputs, hidden), X) == 4
    assert_has_statistics_of(layer, X[:64])


def test_the_first_batch_size_of_a_sequential_model_does_not_limit_recalibration():
    layer = keras_norm.BatchNormalization()
    model = keras.Sequential([layer])
    model(X[:48])
    assert keras_norm.recalibrate(model, X) == 3
    assert_has_statistics_of(layer, X)


@needs_keras(3, 13, "None as an input in a dict")
def test_an_optional_input_may_be_none():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b", optional=True)

    class AddIfGiven(keras.layers.Layer):
        def call(self, a, b=None):
            return a if b is None else a + b

    layer = keras_norm.BatchNormalization()
    model = keras.Model({"a": a, "b": b}, layer(AddIfGiven()(a, b)))
    assert keras_norm.recalibrate(model, {"a": X, "b": None}) == 3
    assert_has_statistics_of(layer, X)


# A recalibrator ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("traced")
def test_a_recalibrator_uses_the_present_weights_in_each_call():
    dense, layer = keras.layers.Dense(4), keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), dense, layer])
    recalibrate = Recalibrator(model)
    for scale in (1.0, 3.0):
        dense.kernel.assign(scale * np.eye(4))
        recalibrate(X)
        assert_has_statistics_of(layer, scale * X)


def test_a_recalibrator_gives_equal_statistics_for_equal_data_despite_noise_and_states():
    layer, inputs = keras_norm.BatchNormalization(), keras.Input(batch_shape=(10, 3, 4))
    hidden = keras_norm.NormGRU(2, norm=None, stateful=True)(
        keras.layers.GaussianNoise(0.5)(inputs)
    )
    recalibrate, x = Recalibrator(keras.Model(inputs, layer(hidden))), RNG.normal(size=(10, 3, 4))
    found = [(recalibrate(x), np.array(layer.moving_variance))[1] for _ in range(2)]
    np.testing.assert_array_equal(*found)


# Refusals ---------------------------------------------------------------------------------------


def assert_refused(model, data, message, error=ValueError, **kwargs):
    """Assert that the call fails with the message, and that no variable of the model changes."""
    before = [keras.ops.convert_to_numpy(v) for v in model.variables]
    with pytest.raises(error, match=message):
        keras_norm.recalibrate(model, data, **kwargs)
    for was, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(variable, was)


# Data that a model of one input (4,) cannot use, the type of the error and its message.
UNUSABLE = {
    "None": (None, TypeError, r"or an iterable of batches\. Received: None\."),
    "number": (3, TypeError, r"Received: 3\."),
    "file name": ("data.npz", TypeError, r"Received: 'data\.npz'\."),
    "class": (Endless, TypeError, r"Received: <class .*Endless'>\."),
    "empty dict": (
        {},
        ValueError,
        r"array with one row for each sample\. Received: data of shape \(\)",
    ),
    "scalar": (np.float32(3.0), ValueError, r"Received: data of shape \(\)"),
    "dict of lists": ({"x": X.tolist()}, ValueError, r"data\['x'\]\[0\]\[0\] of shape \(\)"),
    "dict of iterators": ({"x": iter([X])}, ValueError, r"Received: data\['x'\] of shape \(\)"),
    "no features": (X[:, :0], ValueError, r"Received: data of shape \(70, 0\)"),
    "numbers": ([1.0, 2.0], ValueError, r"Received in batch 1: x of shape \(\)"),
    "batch that is None": ([None], ValueError, r"Received in batch 1: x of shape \(\)"),
    "lists of numbers": (
        X.tolist(),
        ValueError,
        r"\(x, y, sample_weight\).* Received a list of length 4 in batch 1",
    ),
    "four": ([(X,), (X,) * 4], ValueError, r"Received a tuple of length 4 in batch 2\.$"),
    "pair": ((X, X[:, 0]), ValueError, r"may be \(x, y\)"),
    "ragged": (tf.ragged.constant([[1.0], [2.0, 3.0]]), ValueError, "Ragged"),
    "sparse": (tf.sparse.from_dense(X), ValueError, "Received a SparseTensor"),
    "complex": (X + 1j, ValueError, "real numbers. Received dtype complex"),
    "masked": (np.ma.masked_greater(X, 0.0), ValueError, "mask of a NumPy masked array"),
    "dict": ({"x": X}, ValueError, r"Expected: .* Received: inputs=\{'x'"),
    "rank": (X[:, 0], ValueError, r"Expected shape \(None, 4\), .* shape \(32,\)$"),
    "strings": (X.astype(str), ValueError, "Cast string to float is not supported$"),
    "NaN": (np.where(X > 5.0, np.nan, X), ValueError, "on the data are NaN or infinite"),
    "overflow": (1e30 * X, ValueError, "on the data are NaN or infinite"),
    "no rows": (X[:0], ValueError, "The data contain no samples"),
    "no batches": ([], ValueError, "Give at least one"),
}


@pytest.fixture(scope="module")
def model():
    return keras.Sequential([keras.Input((4,)), keras_norm.BatchNormalization()])


@pytest.mark.parametrize(("data", "error", "message"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.usefixtures("traced")
def test_unusable_data_are_refused_in_one_line(model, data, error, message):
    assert_refused(model, data, message, error)


@pytest.mark.parametrize(
    ("structure", "data", "message"),
    [
        ("list", [X[:1], X], r"different numbers.*: 1 rows in data\[0\], 70 rows in data\[1\]\."),
        ("dict", {"a": X[:10], "b": X}, r"10 rows in data\['a'\], 70 rows in data\['b'\]"),
        (
            "nested",
            {"p": [X[:9]], "q": {"r": X}},
            r"9 rows in data\['p'\]\[0\], 70 .*\['q'\]\['r'\]",
        ),
        ("dict", [{"a": X, "b": X}, ({"a": X[:3], "b": X}, X)], r"in batch 2: 3 rows in x\['a'\]"),
        ("list", [((X[:3], X),)], r"in batch 1: 3 rows in x\[0\], 70 rows in x\[1\]"),
        ("dict", {"a": X, "z": X}, r'Missing data for input "b"\. .* keys \[\'a\', \'z\'\]'),
    ],
    ids=["list", "dict", "nested", "batches of dicts", "batches of tuples", "wrong names"],
)
def test_data_that_do_not_fit_the_inputs_are_refused(structure, data, message):
    assert_refused(two_input_model(structure), data, message)


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "3"])
def test_steps_below_1_or_of_another_type_are_refused(model, steps):
    assert_refused(model, X, rf"an int of 1 or more.*Received: steps={steps!r}\.", steps=steps)


@pytest.mark.parametrize("data", [X, [X[:32], X[32:64], X[64:]]], ids=["array", "batches"])
def test_data_that_end_before_steps_are_refused(model, data):
    message = r"ended after 3 batches\. Received: steps=20\. Give more data, or leave steps out"
    assert_refused(model, data, message, steps=20)
    assert keras_norm.recalibrate(model, data, steps=3) == 3


@pytest.mark.parametrize(
    "data",
    [Endless(), tf.data.Dataset.from_tensor_slices(X).batch(32).repeat()],
    ids=["PyDataset", "tf.data"],
)
def test_endless_data_need_steps(model, data):
    assert_refused(model, data, r"never end\. Received: steps=None\. Give the number")
    assert keras_norm.recalibrate(model, data, steps=4) == 4


def test_an_error_of_the_data_leaves_the_model_unchanged(model):
    def batches():
        yield X
        raise OSError("the disk is gone")

    assert_refused(model, batches(), "the disk is gone", OSError)


@pytest.mark.usefixtures("traced")
def test_an_id_beyond_the_embedding_is_refused_in_one_line():
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 4)(ids)
    model = keras.Model(ids, keras_norm.BatchNormalization()(embedded))
    with pytest.raises(ValueError, match=r"cannot process the data: indices.* is not in \[0, 9\)$"):
        keras_norm.recalibrate(model, np.full((4, 5), 20))


@pytest.mark.usefixtures("traced")
def test_infinite_statistics_of_one_layer_leave_all_layers_unchanged():
    first, second = (keras_norm.BatchNormalization(axis=-1) for _ in range(2))
    dense = keras.layers.Dense(2)
    model = keras.Sequential([keras.Input((3,)), first, dense, second])
    dense.bias.assign([0.0, np.inf])
    assert_refused(model, RNG.normal(5.0, size=(64, 3)), "NaN or infinite")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: model_of(keras_norm.LayerNormalization()),
            ValueError,
            "no batch normalization to",
        ),
        (
            lambda: model_of(keras_norm.BatchNormalization(trainable=False)),
            ValueError,
            "are frozen",
        ),
        (
            lambda: keras.Sequential([keras_norm.BatchNormalization()], name="late"),
            ValueError,
            r"'late' is not built.* Call it on data",
        ),
        (lambda: "model.keras", TypeError, r"'model.keras'.*load_model"),
    ],
    ids=["no batch norm", "frozen", "not built", "path"],
)
def test_a_model_that_cannot_be_recalibrated_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        keras_norm.recalibrate(make(), X)


def test_a_single_sequence_is_refused_for_per_timestep_statistics():
    model = model_of(keras_norm.BatchNormGRU(3, max_timesteps=6), shape=(None, 4))
    with pytest.raises(ValueError, match=r"no statistics for .*kernel_norm'.*more data"):
        keras_norm.recalibrate(model, RNG.normal(size=(1, 6, 4)))


# Interrupts -------------------------------------------------------------------------------------


def before_assignment(monkeypatch, variables, number, action):
    """Call `action` before the n-th assignment to any of the variables, with n = `number`."""
    assign, counted = keras.Variable.assign, itertools.count(1)
    ids = {id(variable) for variable in variables}

    def assign_or_act(variable, value):
        if id(variable) in ids and next(counted) == number:
            action()
        return assign(variable, value)

    monkeypatch.setattr(keras.Variable, "assign", assign_or_act)


@pytest.fixture
def statistics():
    """Yield the statistics of two layers and their recalibrator, with Python's SIGINT handler."""
    layers = [keras_norm.BatchNormalization() for _ in range(2)]
    recalibrator = Recalibrator(keras.Sequential([keras.Input((4,)), *layers]))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield [v for layer in layers for v in layer.non_trainable_variables], recalibrator
    signal.signal(signal.SIGINT, handler)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def assert_initial(variables):
    for variable, value in zip(variables, [0.0, 1.0, 0.0, 1.0], strict=True):
        np.testing.assert_array_equal(variable, np.full(4, value))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_during_assignment_restores_all_statistics(statistics, monkeypatch, error):
    variables, recalibrator = statistics

    def fail():
        raise error

    for number in range(1, 5):
        with monkeypatch.context() as patch:
            before_assignment(patch, variables, number, fail)
            with pytest.raises(error):
                recalibrator(X)
        assert_initial(variables)


def test_ctrl_c_during_assignment_is_handled_after_all_assignments(statistics, monkeypatch):
    variables, recalibrator = statistics
    before_assignment(monkeypatch, variables, 2, lambda: [interrupt() for _ in range(3)])
    with pytest.raises(KeyboardInterrupt):
        recalibrator(X)
    np.testing.assert_allclose(variables[0], X.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variables[1], X.var(axis=0), rtol=1e-5)
    np.testing.assert_allclose(variables[2], 0.0, atol=1e-5)
    np.testing.assert_allclose(variables[3], X.var(axis=0) / (X.var(axis=0) + 1e-3), rtol=1e-4)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_during_restoration_is_handled_after_all_assignments(statistics, monkeypatch):
    variables, recalibrator = statistics

    def fail():
        before_assignment(monkeypatch, variables, 2, interrupt)
        raise MemoryError

    before_assignment(monkeypatch, variables, 3, fail)
    with pytest.raises(KeyboardInterrupt):
        recalibrator(X)
    assert_initial(variables)


def test_ctrl_c_during_the_batches_leaves_the_model_unchanged(statistics):
    variables, recalibrator = statistics

    def batches():
        yield X
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        recalibrator(batches())
    assert_initial(variables)
