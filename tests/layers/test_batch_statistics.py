"""BatchNormalization and TimestepBatchNormalization: averages over batches, and shared behavior."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, BatchNormSimpleRNN, TimestepBatchNormalization
from tests import oracles
from tests.check_layer import layer_gradients

RNG = np.random.default_rng(0)
BATCHES = [RNG.normal(k, 1 + k, size=(6, 3)) for k in range(5)]
MASK = np.array([[1, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0]], bool)
every_average = pytest.mark.parametrize(
    "kwargs", [{}, {"momentum": None}, {"momentum": 0.9, "debias": True}], ids=str
)
each_layer = pytest.mark.parametrize(
    ("cls", "args"), [(BatchNormalization, ()), (TimestepBatchNormalization, (4,))]
)


def statistics(batches, ddof=0):
    means, variances = zip(*[oracles.batch_statistics(x, ddof=ddof) for x in batches], strict=True)
    return means, variances


def train(layer, batches=BATCHES):
    for x in batches:
        layer(x, training=True)
    return layer


def assert_moving(layer, mean, variance):
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-12)


def assert_equal(actual, expected, atol=0.0):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=atol)


# Both layers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inference", "frozen", "fully masked"])
@pytest.mark.parametrize(
    ("cls", "kwargs"),
    [
        (TimestepBatchNormalization, {"max_timesteps": 4}),
        (BatchNormalization, {}),
        (BatchNormalization, {"debias": True, "unbiased_variance": True}),
        (BatchNormalization, {"virtual_batch_size": 2}),
        (BatchNormalization, {"renorm": True}),
        (BatchNormalization, {"synchronized": True}),
    ],
    ids=str,
)
def test_without_new_statistics_the_moving_statistics_are_used_and_do_not_change(
    cls, kwargs, how, implementation
):
    layer = cls(dtype="float64", **kwargs)
    x = RNG.normal(5.0, 2.0, size=(5, 4, 3))
    layer(x, training=True)
    layer.trainable = how != "frozen"
    before, x = layer.get_weights(), x + 1.0
    mask = tf.zeros((5, 4), "bool") if how == "fully masked" else None
    y = layer(x, training=how != "inference", mask=mask)
    assert_equal(layer.get_weights(), before)
    np.testing.assert_allclose(y, layer(x), rtol=0, atol=1e-12)
    assert (layer.trainable_weights == []) == (how == "frozen")


@each_layer
def test_nan_in_masked_positions_reaches_neither_gradients_nor_statistics(cls, args):
    x, weights = RNG.normal(size=(2, *MASK.shape, 2))
    results = []
    for values in (x, np.where(MASK[..., None], x, np.nan)):
        layer = cls(*args, dtype="float64")
        gradients = layer_gradients(
            layer,
            values,
            lambda y: keras.ops.sum(tf.boolean_mask(weights * y, MASK)),
            training=True,
            mask=tf.constant(MASK),
        )
        statistics = [weight.numpy() for weight in layer.non_trainable_weights]
        results.append([gradients[0][MASK], *gradients[1:], *statistics])
    assert_equal(results[1], results[0], atol=1e-13)


@each_layer
@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(cls, args, policy, implementation):
    x = np.clip(60000 + 1500 * RNG.normal(size=(64, 1, 4)), 0, 65500).astype("float16")
    layer = cls(*args, momentum=0.0, dtype=policy)
    expected, _, _ = oracles.batch_norm_train(x.astype("float64"))
    np.testing.assert_allclose(layer(x, training=True), expected, rtol=0, atol=1e-2)
    np.testing.assert_allclose(layer(x, training=False), expected, rtol=0, atol=1e-2)
    assert layer.moving_variance.dtype == "float32"


@each_layer
@pytest.mark.parametrize("masked", [False, True])
def test_a_float32_mean_near_1e7_costs_no_digits(cls, args, masked, implementation):
    x = (1e7 + 10 * RNG.normal(size=(160, 1, 3))).astype("float32")
    mask = RNG.random(x.shape[:2]) > 0.3 if masked else np.ones(x.shape[:2], bool)
    layer = cls(*args, momentum=0.0)
    expected, mean, variance = oracles.batch_norm_train(
        x.astype("float64"), mask=mask, epsilon=layer.epsilon
    )
    y = layer(x, training=True, mask=tf.constant(mask) if masked else None)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.atleast_2d(layer.moving_mean)[0], mean, rtol=1e-7)
    np.testing.assert_allclose(np.atleast_2d(layer.moving_variance)[0], variance, rtol=1e-4)


@pytest.mark.parametrize(
    ("create", "eager"),
    [
        (lambda: BatchNormalization(momentum=None), True),
        (lambda: BatchNormalization(momentum=None), False),
        (lambda: TimestepBatchNormalization(4), False),
        (lambda: BatchNormSimpleRNN(3, max_timesteps=4), False),
    ],
    ids=["batch, eager", "batch", "timestep", "recurrent"],
)
def test_a_rematerialized_layer_updates_its_statistics_once_and_warns(create, eager):
    with keras.RematScope(mode="full"):
        layer = create()
    model = keras.Sequential([keras.Input((4, 5)), layer])
    model.compile("sgd", "mse", run_eagerly=eager)
    with pytest.warns(
        UserWarning, match=r"RematScope would run \w+ '\w+' twice .* outside the scope"
    ):
        model.train_on_batch(RNG.normal(size=(6, 4, 5)), np.zeros((6, *model.output_shape[1:])))
    count = next(v for v in layer.variables if v.name == "update_count")
    assert np.unique(count) == 1


# Averages of BatchNormalization -----------------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs",
    [
        *({"momentum": momentum} for momentum in (0.0, 0.9, 1.0)),
        *({"momentum": momentum, "debias": True} for momentum in (0.0, 0.9, 0.99)),
        {"momentum": None},
        {"momentum": None, "debias": True},
    ],
    ids=str,
)
def test_moving_statistics_average_over_the_batches_that_are_not_fully_masked(kwargs):
    """Only the exponential average depends on its initial value."""

    def average(initial, values, momentum, debias=False):
        if momentum is None:
            return oracles.cumulative_average(values)
        if debias:
            return oracles.debiased_average(values, momentum)
        return oracles.exponential_average(np.full(3, initial), values, momentum)

    constant = keras.initializers.Constant
    initial = {"moving_mean_initializer": constant(4), "moving_variance_initializer": constant(5)}
    layer = BatchNormalization(**initial, **kwargs, dtype="float64")
    means, variances = statistics(BATCHES)
    for n, x in enumerate(BATCHES, start=1):
        layer(x, training=True)
        layer(x + 1.0, training=True, mask=tf.zeros(6, bool))
        expected = (average(4.0, means[:n], **kwargs), average(5.0, variances[:n], **kwargs))
        assert_moving(layer, *expected)
    is_counted = kwargs["momentum"] is None or "debias" in kwargs
    assert len(layer.non_trainable_weights) == 2 + is_counted


@each_layer
@pytest.mark.parametrize("momentum", [0.9, 0.999, 0.99999])
def test_debiased_averages_lose_no_digits_in_float32(cls, args, momentum):
    """In float32, 1 - momentum^n would be wrong in its fourth digit."""
    layer = cls(*args, momentum=momentum, debias=True)
    batches = [RNG.normal(1000 + k, 0.5, size=(8, 1, 2)).astype("float32") for k in range(3)]
    means, variances = statistics([x.astype("float64") for x in batches])
    train(layer, batches)
    for moving, values, rtol in (
        (layer.moving_mean, means, 1e-6),
        (layer.moving_variance, variances, 1e-4),
    ):
        expected = oracles.debiased_average(values, momentum)
        np.testing.assert_allclose(np.atleast_2d(moving)[0], expected, rtol=rtol)


@every_average
def test_unbiased_variance_updates_the_moving_variance_only(kwargs):
    layer = BatchNormalization(unbiased_variance=True, dtype="float64", **kwargs)
    y = layer(BATCHES[0], training=True)
    np.testing.assert_allclose(y, oracles.batch_norm_train(BATCHES[0])[0], rtol=0, atol=1e-12)
    (biased,) = statistics(BATCHES[:1])[1]
    expected = 6 / 5 * biased if kwargs else 0.99 + 0.01 * 6 / 5 * biased
    np.testing.assert_allclose(layer.moving_variance, expected, rtol=1e-12)


def test_unbiased_variance_counts_the_unmasked_values_of_each_ghost_batch():
    options = {"momentum": None, "unbiased_variance": True, "dtype": "float64"}
    x, mask = RNG.normal(size=(4, 5, 3)), RNG.random((4, 5)) > 0.4
    layer = BatchNormalization(**options)
    layer(x, training=True, mask=tf.constant(mask))
    assert_moving(layer, *oracles.batch_statistics(x, mask=mask, ddof=1))
    ghosts, x = BatchNormalization(virtual_batch_size=3, **options), BATCHES[0][:5]
    ghosts(x, training=True)
    of_ghosts = statistics([x[:3], x[3:]], ddof=1)
    assert_moving(ghosts, *(np.mean(values, axis=0) for values in of_ghosts))


def test_the_unbiased_variance_of_a_single_value_is_finite():
    layer = BatchNormalization(momentum=None, unbiased_variance=True)
    layer(np.ones((1, 3), "float32"), training=True)
    assert np.isfinite(layer.moving_variance).all()


@every_average
@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_float16"])
def test_averages_are_float32_under_half_precision(kwargs, dtype):
    layer, exact = (BatchNormalization(dtype=d, **kwargs) for d in (dtype, "float64"))
    train(layer, [x.astype("float16") for x in BATCHES])
    train(exact, [x.astype("float16").astype("float64") for x in BATCHES])
    np.testing.assert_allclose(layer.moving_mean, exact.moving_mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, exact.moving_variance, rtol=1e-5)


def test_training_continues_where_a_saved_model_stopped(tmp_path):
    norms = [BatchNormalization(momentum=None), BatchNormalization(momentum=0.9, debias=True)]
    model = keras.Sequential([keras.Input((3,)), *norms])
    train(model, BATCHES[:2])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    train(model, BATCHES[2:])
    train(loaded, BATCHES[2:])
    assert_equal(loaded.get_weights(), model.get_weights())


# Averages of TimestepBatchNormalization ---------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"momentum": 0.9, "debias": False},
        {"momentum": None},
        {"momentum": 0.0},
        {"momentum": 0.5, "unbiased_variance": True},
    ],
    ids=str,
)
def test_each_row_averages_over_the_batches_that_updated_it(kwargs):
    layer = TimestepBatchNormalization(4, dtype="float64", **kwargs)
    oracle = oracles.TimestepBatchNorm(4, 2, **kwargs)
    for time in (2, 4, 1, 6):  # the rows are updated 4, 3, 2 and 2 times
        x = RNG.normal(time, 2, size=(5, time, 2))
        mask = RNG.random((5, time)) > 0.2
        layer(x, training=True, mask=tf.constant(mask))
        oracles.timestep_batch_norm(oracle, x, mask, training=True)
    np.testing.assert_array_equal(layer.update_count, oracle.update_count)
    assert_moving(layer, oracle.moving_mean, oracle.moving_variance)
