"""What all normalization layers have in common: weights, inputs, refused arguments."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import (
    BatchNormalization,
    LayerNormalization,
    RMSNormalization,
    TimestepBatchNormalization,
    VarianceNormalization,
)
from tests.check_layer import assert_refused, check_layer

X = np.random.default_rng(0).normal(1.0, 2.0, size=(4, 3, 5)).astype("float32")
RAGGED = tf.ragged.constant([[[1.0, 2, 4], [3, 4, 9]], [], [[5, 6, 1]]], ragged_rank=1)
SAMPLE_NORMS = [LayerNormalization, RMSNormalization, VarianceNormalization]
LAYERS = {
    "layer": lambda: LayerNormalization(),
    "layer, axes": lambda: LayerNormalization(axis=[1, 2]),
    "rms": lambda: RMSNormalization(),
    "variance": lambda: VarianceNormalization(scale=True),
    "batch": lambda: BatchNormalization(),
    "ghosts": lambda: BatchNormalization(axis=1, virtual_batch_size=2),
    "timesteps": lambda: TimestepBatchNormalization(2),
}
BATCH_LAYERS = ("batch", "ghosts", "timesteps")


OUTSIDE = {"axis": [2, 1], "epsilon_placement": "outside", "ddof": 1}
AVERAGE = {"momentum": None, "unbiased_variance": True}
RENORM_OPTIONS = {"renorm": True, "renorm_clipping": {"rmax": 3.0}, "synchronized": True}
# The class, its arguments, its numbers of weights, and how a batch norm is computed.
CONTRACT = {
    "layer": (LayerNormalization, OUTSIDE, 2, 0, ""),
    "rms": (RMSNormalization, {"axis": [2, 1]}, 1, 0, ""),
    "variance": (VarianceNormalization, {"axis": [2, 1], "center": True, "scale": True}, 2, 0, ""),
    "batch": (BatchNormalization, {}, 2, 2, "fused"),
    "ghosts": (BatchNormalization, {**AVERAGE, "virtual_batch_size": 2}, 2, 3, "composed"),
    "renorm": (BatchNormalization, RENORM_OPTIONS, 2, 5, "composed"),
    "timestep": (TimestepBatchNormalization, {"max_timesteps": 2, **AVERAGE}, 2, 3, "composed"),
    "fused timestep": (
        TimestepBatchNormalization,
        {"max_timesteps": 5, "debias": False},
        2,
        3,
        "fused",
    ),
}


@pytest.mark.parametrize(
    ("cls", "kwargs", "trainable", "non_trainable", "implementation"),
    CONTRACT.values(),
    ids=CONTRACT,
    indirect=["implementation"],
)
def test_every_layer_meets_the_contract_of_check_layer(
    cls, kwargs, trainable, non_trainable, implementation
):
    counts = {"expected_trainable": trainable, "expected_non_trainable": non_trainable}
    check_layer(cls, kwargs, (4, 3, 5), **counts)


@pytest.mark.parametrize(
    "cls",
    [LayerNormalization, VarianceNormalization, BatchNormalization, TimestepBatchNormalization],
)
def test_initializers_regularizers_and_constraints_reach_the_weights(cls):
    constant, given = keras.initializers.Constant, {"center": True, "scale": True}
    has_statistics = cls not in SAMPLE_NORMS
    if has_statistics:
        given |= {f"moving_{s}_initializer": constant(k) for s, k in (("mean", 4), ("variance", 5))}
    layer = cls(
        **({"max_timesteps": 2} if cls is TimestepBatchNormalization else {}),
        beta_initializer=constant(2),
        gamma_initializer=constant(3),
        beta_regularizer=keras.regularizers.L1(0.5),
        gamma_regularizer=keras.regularizers.L2(0.1),
        beta_constraint=keras.constraints.NonNeg(),
        gamma_constraint=keras.constraints.UnitNorm(),
        **given,
    )
    layer.build((None, 2, 5))
    np.testing.assert_allclose(sum(layer.losses), 0.5 * 5 * 2 + 0.1 * 5 * 9, rtol=1e-6)
    assert isinstance(layer.beta.constraint, keras.constraints.NonNeg)
    assert isinstance(layer.gamma.constraint, keras.constraints.UnitNorm)
    if has_statistics:
        assert (layer.moving_mean.numpy() == 4).all()
        assert (layer.moving_variance.numpy() == 5).all()


# Inputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in LAYERS), *((name, {"training": True}) for name in BATCH_LAYERS)],
    ids=str,
)
def test_all_sizes_of_the_inputs_of_a_built_layer_may_be_dynamic(name, options):
    first, second = LAYERS[name](), LAYERS[name]()
    first.build(X.shape)
    second.build(X.shape)
    spec = tf.TensorSpec((None, None, None))
    y = tf.function(lambda x: first(x, **options), [spec], autograph=False)(X)
    np.testing.assert_allclose(y, second(X, **options), rtol=0, atol=1e-6)
    for ours, expected in zip(first.weights, second.weights, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_a_layer_built_for_sequences_normalizes_vectors_too_but_not_of_another_size():
    layer = LayerNormalization()
    layer.build((None, 5, 4))
    x = X[:, 0, :4]
    np.testing.assert_allclose(layer(x), LayerNormalization()(x), rtol=0, atol=1e-6)
    layer = LayerNormalization()
    layer.build((None, 1))
    assert_refused(lambda: layer(np.zeros((2, 3), "float32")), "built for inputs of size (1,)")
    graph = tf.function(layer, input_signature=[tf.TensorSpec((None, None))])
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        graph(np.zeros((2, 3), "float32"))


@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("axis", [-1, [2]], ids=str)
def test_a_ragged_tensor_is_normalized_as_by_keras(name, axis):
    ours, theirs = (getattr(module, name)(axis) for module in (keras_norm, keras.layers))
    expected = theirs(RAGGED)
    for y in (ours(RAGGED), tf.function(ours)(RAGGED)):
        np.testing.assert_array_equal(y.row_splits, expected.row_splits)
        np.testing.assert_allclose(y.values, expected.values, rtol=0, atol=1e-6)


def test_a_ragged_axis_is_refused():
    layer = LayerNormalization(axis=[1, 2])
    layer.build((None, 2, 3))
    assert_refused(lambda: layer(RAGGED), "flat_values", "axis=[1, 2]", "(3, None, 3)")


@pytest.mark.parametrize(
    "make", [BatchNormalization, lambda **o: TimestepBatchNormalization(4, debias=False, **o)]
)
def test_a_mask_with_dynamic_sizes_broadcasts(make):
    layer, rng = make(momentum=0.0), np.random.default_rng(0)
    spec = [tf.TensorSpec((None, None, 3)), tf.TensorSpec((None, None), "bool")]
    graph = tf.function(lambda x, m: layer(x, mask=m, training=True), spec, autograph=False)
    for shape in ((1, 4), (6, 1)):
        x = rng.normal(5.0, size=(6, 4, 3)).astype("float32")
        graph(x, np.ones(shape, bool))
        axes = (0, 1) if layer.moving_mean.ndim == 1 else 0
        np.testing.assert_allclose(layer.moving_mean, x.mean(axis=axes), rtol=1e-5)
        np.testing.assert_allclose(layer.moving_variance, x.var(axis=axes), rtol=1e-5)


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*SAMPLE_NORMS, BatchNormalization])
@pytest.mark.parametrize("axis", [3, -4, [1, 3], (1, 1), (2, -1), "last", 1.5, None], ids=str)
def test_a_wrong_axis_is_refused(cls, axis):
    received = str(list(axis))[1:-1] if isinstance(axis, tuple) else str(axis)
    assert_refused(lambda: cls(axis=axis)(X), "axis", received)


@pytest.mark.parametrize("name", LAYERS)
def test_integer_inputs_and_an_axis_of_dynamic_size_are_refused(name):
    assert_refused(lambda: LAYERS[name]()(X.astype("int32")), "int32")
    if name in ("layer", "rms", "variance", "batch"):
        cls = type(LAYERS[name]())
        assert_refused(lambda: cls(axis=1)(keras.Input((None, 3))), "axis 1", "None")


# For each class, arguments and fragments of the message.
STATISTICS = [
    ({"epsilon": -0.5}, ["epsilon", "-0.5"]),
    ({"momentum": -0.1}, ["momentum", "-0.1"]),
    ({"momentum": 1.5}, ["momentum", "1.5"]),
    ({"debias": True, "momentum": 1.0}, ["debias", "momentum"]),
]
RENORM = [
    ({"renorm_clipping": {"rmaxx": 1.0}}, ["renorm_clipping", "rmaxx", "rmax, rmin, dmax"]),
    ({"renorm_clipping": {"rmax": 0.5, "rmin": 0.75}}, ["rmax", "rmin", "0.5", "0.75"]),
    ({"renorm_clipping": {"dmax": -1.5}}, ["dmax", "-1.5"]),
    ({"renorm_momentum": -0.1}, ["renorm_momentum", "-0.1"]),
    ({"renorm_momentum": 1.5}, ["renorm_momentum", "1.5"]),
    ({"momentum": None}, ["renorm", "momentum"]),
    ({"debias": True}, ["renorm", "debias"]),
]
WRONG = {
    LayerNormalization: [
        ({"epsilon": -0.5}, ["epsilon", "-0.5"]),
        ({"epsilon_placement": "under"}, ["epsilon_placement", "'under'"]),
        ({"ddof": 2}, ["ddof", "2"]),
    ],
    RMSNormalization: [({"epsilon": -0.5}, ["epsilon", "-0.5"])],
    VarianceNormalization: [({"epsilon": -0.5}, ["epsilon", "-0.5"])],
    TimestepBatchNormalization: [
        *(({"max_timesteps": 3, **given}, words) for given, words in STATISTICS),
        *(({"max_timesteps": n}, ["max_timesteps", str(n)]) for n in (0, -2, 1.5)),
        *(
            ({"max_timesteps": 3, "min_sequences": n}, ["min_sequences", str(n)])
            for n in (1, 2.5, True)
        ),
    ],
    BatchNormalization: [
        *STATISTICS,
        *(({"renorm": True, **given}, words) for given, words in RENORM),
        *(({"virtual_batch_size": n}, ["virtual_batch_size", str(n)]) for n in (0, -3, 2.5)),
        ({"virtual_batch_size": 4, "synchronized": True}, ["virtual_batch", "synchronized"]),
        ({"virtual_batch_size": 4, "renorm": True}, ["virtual_batch", "renorm"]),
    ],
}


@pytest.mark.parametrize(
    ("cls", "kwargs", "fragments"),
    [(cls, *wrong) for cls, many in WRONG.items() for wrong in many],
    ids=str,
)
def test_a_wrong_argument_is_refused(cls, kwargs, fragments):
    assert_refused(lambda: cls(**kwargs), *fragments)


def mask_of(*shape):
    return {"training": True, "mask": tf.ones(shape, bool)}


@pytest.mark.parametrize(
    ("layer", "shape", "kwargs", "fragments"),
    [
        (LayerNormalization(ddof=1), (3, 4, 1), {}, ["ddof=1", "(3, 4, 1)"]),
        (BatchNormalization(), (2, 3, 4, 5), mask_of(2), ["mask", "(2,)"]),
        (BatchNormalization(), (2, 3, 4), mask_of(2, 5), ["mask", "(2, 5)"]),
        (TimestepBatchNormalization(3), (4, 3), {}, ["3", "time"]),
        (TimestepBatchNormalization(3), (4, 3, 2, 5), {}, ["5", "time"]),
        (TimestepBatchNormalization(3), (4, 3), {"step": -1}, ["step", "-1"]),
        (TimestepBatchNormalization(3), (4, 3, 2), {"step": 0}, ["with step"]),
        (TimestepBatchNormalization(3), (5, 3, 2), mask_of(5, 3, 2), ["mask", "(5, 3, 2)"]),
        (TimestepBatchNormalization(3), (5, 3), {**mask_of(5, 3), "step": 0}, ["mask", "(5, 3)"]),
    ],
    ids=str,
)
def test_a_wrong_call_is_refused(layer, shape, kwargs, fragments):
    assert_refused(lambda: layer(np.ones(shape, "float32"), **kwargs), *fragments)
