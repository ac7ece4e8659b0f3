"""Recalibrating models: whose statistics change, and to which values."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.keras_version import needs_keras, needs_renorm
from tests.recalibration.models import RNG, X, assert_has_statistics_of, assert_refused, model_of

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


def test_rows_that_no_sequence_reaches_keep_their_statistics():
    """The moving statistics before the call do not change those of other rows.

    test_partitions.py compares the statistics of each timestep, also of a backward layer.
    """
    layer = keras_norm.BatchNormSimpleRNN(5, max_timesteps=6)
    model, norm = model_of(layer, shape=(None, 3)), layer.cell.kernel_norm
    before = np.where(np.arange(6) < 4, 99, 7)
    for variable in (norm.moving_mean, norm.moving_variance):
        variable.assign(before[:, None] * np.ones(5))
    norm.update_count.assign(before)
    batches = [RNG.normal(size=(n, time, 3)).astype("float32") for n, time in ((9, 2), (3, 4))]
    keras_norm.recalibrate(model, [(batch,) for batch in batches])
    np.testing.assert_array_equal(norm.update_count, [2, 2, 1, 1, 7, 7])
    for variable in (norm.moving_mean, norm.moving_variance):
        np.testing.assert_array_equal(variable[4:], 7.0)
    last = batches[1][:, 3] @ np.asarray(layer.cell.kernel, "float64")
    assert_has_statistics_of(norm, last, row=3, rtol=1e-4)


def test_nan_statistics_do_not_spread_from_a_timestep_of_a_single_sequence():
    """The second batch has one sequence, which is normalized with the moving statistics."""
    first, layer = keras_norm.TimestepBatchNormalization(3), keras_norm.BatchNormalization()
    model, x = model_of(first, layer, shape=(None, 4)), RNG.normal(size=(9, 3, 4))
    first.moving_mean.assign(np.full((3, 4), np.nan))
    assert keras_norm.recalibrate(model, [x[:8], x[8:]]) == 2
    assert np.isfinite(layer.moving_mean).all()


def test_a_cell_in_keras_rnn_gets_the_statistics_of_every_timestep():
    """Timesteps that share a row are merged."""
    cell = keras_norm.BatchNormSimpleRNNCell(4, max_timesteps=2)
    x = RNG.normal(size=(64, 6, 3)) + 5 * np.arange(6)[:, None]
    keras_norm.recalibrate(model_of(keras.layers.RNN(cell), shape=(6, 3)), x)
    projected = x @ np.asarray(cell.kernel)
    for row, steps in ((0, projected[:, :1]), (1, projected[:, 1:])):
        assert_has_statistics_of(cell.kernel_norm, steps, row=row, rtol=1e-4)


@pytest.mark.parametrize("package", [keras_norm, keras.layers])
def test_statistics_are_those_of_the_feature_axis(package):
    layer, x = package.BatchNormalization(axis=1), RNG.normal(X[0, :, None], size=(9, 4, 4))
    keras_norm.recalibrate(model_of(layer, shape=(4, 4)), x)
    assert_has_statistics_of(layer, x.swapaxes(1, 2))


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
    layer = package.BatchNormalization(renorm=True, epsilon=9.0)
    model = keras.Sequential([keras.Input((4,)), layer])
    keras_norm.recalibrate(model, 10.0 * X)
    stddev = np.sqrt(np.var(10.0 * X, axis=0) + 9.0)
    np.testing.assert_allclose(layer.moving_stddev, stddev, rtol=1e-5)
    before = layer.moving_variance.numpy()
    model(10.0 * X, training=True)
    np.testing.assert_allclose(layer.moving_variance, before, rtol=0.01)


def test_the_dropout_of_recurrent_layers_is_off():
    layer, x = keras_norm.BatchNormalization(), RNG.normal(size=(32, 5, 4)).astype("float32")
    rnn = keras.layers.SimpleRNN(3, dropout=0.5, recurrent_dropout=0.5, return_sequences=True)
    keras_norm.recalibrate(model_of(rnn, layer, shape=(5, 4)), x)
    assert_has_statistics_of(layer, np.asarray(rnn(x)), rtol=1e-4)


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


class OwnNorm(keras.layers.Layer):
    """A batch norm of a user. A batch without unmasked positions has statistics of NaN."""

    supports_masking = True

    def build(self, shape):
        for name in ("moving_mean", "moving_variance"):
            setattr(self, name, self.add_weight(shape[-1:], "ones", trainable=False, name=name))

    def call(self, x, mask=None, training=False):
        if training:
            weights = keras.ops.cast(keras.ops.expand_dims(mask, -1), x.dtype)
            n, total = keras.ops.sum(weights), lambda y: keras.ops.sum(weights * y, axis=(0, 1))
            self.moving_mean.assign(total(x) / n)
            self.moving_variance.assign(total((x - self.moving_mean) ** 2) / n)
        return x


def test_a_batch_norm_of_a_user_is_weighted_by_the_unmasked_positions_of_each_batch():
    unmasked = np.arange(5) < RNG.integers(1, 6, 30)[:, None]
    x, layer = RNG.normal(3.0, 2.0, (30, 5, 4)) * unmasked[..., None], OwnNorm()
    model = model_of(keras.layers.Masking(), layer, shape=(5, 4))
    keras_norm.recalibrate(model, [x[:4], np.zeros((7, 5, 4)), x[4:]])
    assert_has_statistics_of(layer, x[unmasked])


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


def test_equal_data_give_equal_statistics_despite_noise_and_states():
    layer, inputs = keras_norm.BatchNormalization(), keras.Input(batch_shape=(10, 3, 4))
    hidden = keras_norm.NormGRU(2, norm=None, stateful=True)(
        keras.layers.GaussianNoise(0.5, seed=0)(inputs)
    )
    model, x = keras.Model(inputs, layer(hidden)), RNG.normal(size=(10, 3, 4))
    found = [
        (keras_norm.recalibrate(model, x), np.array(layer.moving_variance))[1] for _ in range(2)
    ]
    np.testing.assert_array_equal(*found)


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
    with pytest.raises(ValueError, match=r"too few for statistics of .*kernel_norm'.*more data"):
        keras_norm.recalibrate(model, RNG.normal(size=(1, 6, 4)))


def test_an_iterator_is_refused_layer_by_layer():
    model = model_of(keras_norm.BatchNormalization())
    message = "reads the data once for each layer.* Received: a list_iterator"
    assert_refused(model, iter([X]), message, layer_by_layer=True)
