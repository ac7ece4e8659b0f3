import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.recalibrate import Recalibrator

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, size=(70, 4)).astype("float32")


def batch_norm_model(layer):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), layer])


def batch_moments(batches):
    return (
        np.mean([b.mean(axis=0) for b in batches], axis=0),
        np.mean([b.var(axis=0) for b in batches], axis=0),
    )


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras_norm.BatchNormalization(),
        lambda: keras_norm.BatchNormalization(momentum=None),
        lambda: keras_norm.BatchNormalization(debias=True),
        lambda: keras.layers.BatchNormalization(),
    ],
    ids=["exponential", "cumulative", "debiased", "Keras"],
)
def test_statistics_become_the_average_over_batches(layer):
    layer = layer()
    assert keras_norm.recalibrate(batch_norm_model(layer), X) == 3
    mean, variance = batch_moments([X[:32], X[32:64], X[64:]])
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-5)


@pytest.mark.parametrize(
    "data",
    [
        [(X[:30],), (X[30:60],)],
        [(X[:30], np.zeros(30)), (X[30:60], np.zeros(30))],
        tf.data.Dataset.from_tensor_slices(X[:60]).batch(30),
    ],
    ids=["inputs", "inputs and targets", "tf.data"],
)
def test_batches_may_come_from_any_iterable(data):
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(batch_norm_model(layer), data) == 2
    mean, _ = batch_moments([X[:30], X[30:60]])
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-5)


@pytest.mark.parametrize("data", [tf.constant(X), keras.Variable(X)], ids=["tensor", "variable"])
def test_a_tensor_is_cut_into_batches(data):
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(batch_norm_model(layer), data) == 3


def test_a_py_dataset_ends_where_it_says():
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return X[30 * index : 30 * index + 30], np.zeros(30)

    assert keras_norm.recalibrate(batch_norm_model(keras_norm.BatchNormalization()), Batches()) == 2


def test_a_list_of_arrays_is_the_inputs_of_a_model_that_takes_a_list():
    first, second = keras.Input((4,)), keras.Input((4,))
    layer = keras_norm.BatchNormalization()
    model = keras.Model([first, second], layer(keras.layers.add([first, second])))
    assert keras_norm.recalibrate(model, [X, X]) == 3
    np.testing.assert_allclose(
        layer.moving_mean, batch_moments([2 * X[:32], 2 * X[32:64], 2 * X[64:]])[0], rtol=1e-5
    )


class Momentum(keras.layers.Layer):
    """Has arguments that are named as others' are."""

    def __init__(self, momentum, dropout_scale, **kwargs):
        super().__init__(**kwargs)
        self.momentum, self.dropout_scale = momentum, dropout_scale

    def call(self, x):
        return x * self.momentum * self.dropout_scale


def test_a_layer_of_one_s_own_computes_what_it_computes():
    """Its `momentum` is none of a BatchNorm's, whatever the configuration's key."""
    layer = keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), Momentum(0.9, 2.0), layer])
    keras_norm.recalibrate(model, X[:64])
    np.testing.assert_allclose(layer.moving_mean, 1.8 * X[:64].mean(axis=0), rtol=1e-5)


def test_a_model_that_goes_on_learning_is_recalibrated_as_it_is_then():
    dense, layer = keras.layers.Dense(4), keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), dense, layer])
    recalibrate = Recalibrator(model)
    for scale in (1.0, 3.0):
        dense.kernel.assign(scale * np.eye(4))
        recalibrate(X)
        mean, _ = batch_moments([scale * X[:32], scale * X[32:64], scale * X[64:]])
        np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-5)


def test_noise_that_alone_tells_samples_apart_gives_their_variance():
    layer = keras_norm.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), keras.layers.GaussianNoise(0.5), layer])
    keras_norm.recalibrate(model, np.ones((6400, 4), "float32"))
    np.testing.assert_allclose(layer.moving_variance, 0.25, rtol=0.1)


def test_steps_limits_the_batches():
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(batch_norm_model(layer), X, steps=1) == 1
    np.testing.assert_allclose(layer.moving_mean, X[:32].mean(axis=0), rtol=1e-5)


def test_rows_of_timesteps_are_averaged_over_the_batches_that_reach_them():
    inputs = keras.Input((None, 3))
    layer = keras_norm.BatchNormLSTM(5, max_timesteps=6)
    model = keras.Model(inputs, layer(inputs))
    long, short = RNG.normal(size=(9, 4, 3)), RNG.normal(size=(9, 2, 3))
    keras_norm.recalibrate(model, [(long,), (short,)])
    norm = layer.cell.kernel_norm
    np.testing.assert_array_equal(norm.update_count, [2, 2, 1, 1, 0, 0])
    projected = [np.asarray(x @ np.asarray(layer.cell.kernel)) for x in (long, short)]
    expected = np.mean([p[:, 1].mean(axis=0) for p in projected], axis=0)
    np.testing.assert_allclose(norm.moving_mean[1], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(norm.moving_mean[4:], 0.0)


def test_weights_and_frozen_statistics_stay():
    frozen = keras_norm.BatchNormalization(trainable=False)
    model = keras.Sequential(
        [keras.Input((4,)), frozen, keras.layers.Dense(3), keras_norm.BatchNormalization()]
    )
    trainable = [w.numpy() for w in model.trainable_weights]
    keras_norm.recalibrate(model, X)
    np.testing.assert_array_equal(frozen.moving_mean, 0.0)
    for before, after in zip(trainable, model.trainable_weights, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_model_without_batch_normalization_is_refused():
    model = keras.Sequential([keras.Input((4,)), keras_norm.LayerNormalization()])
    with pytest.raises(ValueError, match="no batch normalization to recalibrate"):
        keras_norm.recalibrate(model, X)


def test_no_batch_is_refused():
    with pytest.raises(ValueError, match="Give at least one"):
        keras_norm.recalibrate(batch_norm_model(keras_norm.BatchNormalization()), [])


def test_joined_masks():
    """A clone of such a model has a layer that the model has not."""
    ids, features = keras.Input((None,), dtype="int32"), keras.Input((None, 2))
    embedded = keras.layers.Embedding(5, 2, mask_zero=True)(ids)
    joined = keras.layers.Concatenate()([embedded, features])
    norm = keras_norm.BatchNormalization()
    model = keras.Model([ids, features], keras_norm.NormGRU(2)(norm(joined)))
    data = [np.ones((8, 3), "int32"), RNG.normal(4.0, 1.0, (8, 3, 2)).astype("float32")]
    keras_norm.recalibrate(model, data)
    np.testing.assert_allclose(norm.moving_mean[2:], data[1].mean(axis=(0, 1)), rtol=1e-4)
