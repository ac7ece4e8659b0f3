"""How the moving statistics of batch normalizations average over batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, BatchNormSimpleRNN, TimestepBatchNormalization
from tests import oracles

RNG = np.random.default_rng(0)
BATCHES = [RNG.normal(k, 1 + k, size=(6, 3)) for k in range(5)]


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


# keras.RematScope -------------------------------------------------------------------------------


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graph"])
@pytest.mark.parametrize(
    "create",
    [
        lambda: BatchNormalization(momentum=None),
        lambda: TimestepBatchNormalization(4),
        lambda: BatchNormSimpleRNN(3, max_timesteps=4),
    ],
    ids=["batch", "timestep", "recurrent"],
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


# BatchNormalization -----------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99, 1.0])
def test_exponential_average_starts_at_its_initial_value(momentum):
    layer = BatchNormalization(
        momentum=momentum,
        moving_mean_initializer=keras.initializers.Constant(4),
        moving_variance_initializer=keras.initializers.Constant(5),
        dtype="float64",
    )
    means, variances = statistics(BATCHES)
    assert_moving(
        train(layer),
        oracles.exponential_average(np.full(3, 4.0), means, momentum),
        oracles.exponential_average(np.full(3, 5.0), variances, momentum),
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_debiased_average_forgets_its_initial_value(momentum, count):
    layer = BatchNormalization(
        momentum=momentum,
        debias=True,
        moving_mean_initializer=keras.initializers.Constant(1000),
        dtype="float64",
    )
    means, variances = statistics(BATCHES[:count])
    assert_moving(
        train(layer, BATCHES[:count]),
        oracles.debiased_average(means, momentum),
        oracles.debiased_average(variances, momentum),
    )


@pytest.mark.parametrize("debias", [False, True])
def test_momentum_none_gives_the_exact_mean_of_all_batches(debias):
    layer = train(BatchNormalization(momentum=None, debias=debias, dtype="float64"))
    means, variances = statistics(BATCHES)
    assert_moving(layer, oracles.cumulative_average(means), oracles.cumulative_average(variances))


@pytest.mark.parametrize("kwargs", [{"momentum": None}, {"debias": True}], ids=str)
def test_inference_after_one_step_equals_training(kwargs):
    layer = BatchNormalization(dtype="float64", **kwargs)
    trained = layer(BATCHES[4], training=True)
    np.testing.assert_allclose(layer(BATCHES[4], training=False), trained, rtol=0, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.9, 0.999, 0.99999])
@pytest.mark.parametrize(
    ("cls", "args"), [(BatchNormalization, ()), (TimestepBatchNormalization, (1,))]
)
def test_debiased_averages_lose_no_digits_in_float32(cls, args, momentum):
    # In float32, 1 - momentum^n would be wrong in its fourth digit.
    layer = cls(*args, momentum=momentum, debias=True)
    batches = [RNG.normal(1000 + k, 0.5, size=(8, 1, 2)).astype("float32") for k in range(3)]
    means, variances = statistics([x.astype("float64") for x in batches])
    train(layer, batches)
    np.testing.assert_allclose(
        np.ravel(layer.moving_mean), oracles.debiased_average(means, momentum), rtol=1e-6
    )
    np.testing.assert_allclose(
        np.ravel(layer.moving_variance), oracles.debiased_average(variances, momentum), rtol=1e-4
    )


@pytest.mark.parametrize("kwargs", [{"momentum": None}, {"debias": True}], ids=str)
def test_cumulative_and_debiased_averages_count_updates(kwargs):
    assert int(train(BatchNormalization(**kwargs)).update_count) == len(BATCHES)


def test_exponential_average_has_no_update_count():
    layer = train(BatchNormalization())
    assert [weight.name for weight in layer.non_trainable_weights] == [
        "moving_mean",
        "moving_variance",
    ]


def test_fully_masked_batches_are_not_counted():
    layer = BatchNormalization(momentum=None, dtype="float64")
    layer(BATCHES[0], training=True)
    layer(BATCHES[1], training=True, mask=tf.zeros(6, bool))
    layer(BATCHES[2], training=True)
    means, variances = statistics([BATCHES[0], BATCHES[2]])
    assert int(layer.update_count) == 2
    assert_moving(layer, oracles.cumulative_average(means), oracles.cumulative_average(variances))


@pytest.mark.parametrize("kwargs", [{}, {"momentum": None}, {"debias": True}], ids=str)
def test_unbiased_variance_updates_the_moving_variance_only(kwargs):
    layer = BatchNormalization(unbiased_variance=True, dtype="float64", **kwargs)
    y = layer(BATCHES[0], training=True)
    np.testing.assert_allclose(y, oracles.batch_norm_train(BATCHES[0])[0], rtol=0, atol=1e-12)
    (biased,) = statistics(BATCHES[:1])[1]
    expected = 6 / 5 * biased if kwargs else 0.99 + 0.01 * 6 / 5 * biased
    np.testing.assert_allclose(layer.moving_variance, expected, rtol=1e-12)


def test_unbiased_variance_counts_unmasked_values():
    x, mask = RNG.normal(size=(4, 5, 3)), RNG.random((4, 5)) > 0.4
    layer = BatchNormalization(momentum=None, unbiased_variance=True, dtype="float64")
    layer(x, training=True, mask=tf.constant(mask))
    assert_moving(layer, *oracles.batch_statistics(x, mask=mask, ddof=1))


def test_unbiased_variance_of_a_single_value_is_finite():
    layer = BatchNormalization(momentum=None, unbiased_variance=True)
    layer(np.ones((1, 3), "float32"), training=True)
    assert np.isfinite(layer.moving_variance).all()


def test_unbiased_variance_of_ghost_batches_counts_the_values_of_each_ghost_batch():
    x = BATCHES[0][:5]
    layer = BatchNormalization(
        momentum=None, unbiased_variance=True, virtual_batch_size=3, dtype="float64"
    )
    layer(x, training=True)
    ghosts = statistics([x[:3], x[3:]], ddof=1)
    assert_moving(layer, *(np.mean(values, axis=0) for values in ghosts))


@pytest.mark.parametrize("kwargs", [{}, {"momentum": None}, {"debias": True}], ids=str)
def test_averages_are_float32_under_mixed_precision(kwargs):
    layer = BatchNormalization(
        dtype="mixed_float16", momentum=kwargs.pop("momentum", 0.9), **kwargs
    )
    train(layer, [x.astype("float16") for x in BATCHES])
    exact = BatchNormalization(dtype="float64", momentum=layer.momentum, **kwargs)
    train(exact, [x.astype("float16").astype("float64") for x in BATCHES])
    np.testing.assert_allclose(layer.moving_mean, exact.moving_mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, exact.moving_variance, rtol=1e-5)


@pytest.mark.parametrize("kwargs", [{"momentum": None}, {"momentum": 0.9, "debias": True}], ids=str)
def test_training_continues_where_a_saved_model_stopped(kwargs, tmp_path):
    model = keras.Sequential([keras.Input((3,)), BatchNormalization(**kwargs)])
    train(model, BATCHES[:2])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    train(model, BATCHES[2:])
    train(loaded, BATCHES[2:])
    for restored, weight in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(restored, weight)


# TimestepBatchNormalization ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"momentum": 0.9},
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_float16"])
def test_moving_statistics_are_float32_under_half_precision(dtype):
    layer = BatchNormalization(momentum=0.0, dtype=dtype)
    x = np.array([[-60000.0], [60000.0]], "float16")
    layer(x, training=True)
    assert layer.moving_variance.dtype == "float32"
    np.testing.assert_allclose(layer.moving_variance, [x.astype("float64").var()], rtol=1e-2)
    np.testing.assert_allclose(np.asarray(layer(x), "float32"), [[-1.0], [1.0]], rtol=1e-2)
