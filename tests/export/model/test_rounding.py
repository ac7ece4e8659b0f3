"""The rounding errors of a model, measured against float64."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export.compare.samples import Case
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.rounding import Rounding, rounding_errors
from tests.export import models
from tests.export.compared import compare
from tests.export.own_layers import Sampled, Undescribed


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras_norm.BatchNormSimpleRNN(4, max_timesteps=8, return_sequences=True),
        lambda: keras.layers.Dense(4, dtype="mixed_float16"),
    ],
    ids=["BatchNormSimpleRNN", "mixed_float16"],
)
def test_the_error_is_the_difference_from_float64(layer):
    model = models.stack(layer(), keras.layers.Dense(2, dtype="float32", name="y"))
    x = np.random.default_rng(0).normal(size=(4, 7, 3)).astype("float32")
    expected = KerasRunner(model)({"x": x})
    floor = rounding_errors(model, {"x": x}, expected)
    share = floor["y"] / np.abs(expected["y"]).max()
    half = any("16" in inner.compute_dtype for inner in model.layers)
    assert (1e-5 < share < 1e-2) if half else (1e-9 < share < 1e-6)


def test_perturbed_weights_show_an_error_that_is_small_by_chance():
    # Every sum is exact in float32, and the norm makes 0.4 of a difference of eight units in the
    # last place: weights that were rounded otherwise would give something else.
    dense = keras.layers.Dense(2, use_bias=False)
    model = models.stack(dense, keras_norm.LayerNormalization(epsilon=1e-12, name="y"))
    dense.set_weights([np.full((3, 2), [0.25, 0.25 + 2.0**-22], "float32")])
    x = np.full((2, 4, 3), [1.0, 2.0, 1.0], "float32")
    expected = KerasRunner(model)({"x": x})
    d = 2.0**-20
    np.testing.assert_allclose(expected["y"][..., 1], d / np.hypot(d, 2e-6), rtol=1e-6)
    assert rounding_errors(model, {"x": x}, expected)["y"] > 1e-3


X = {"x": np.random.default_rng(0).normal(size=(4, 7, 3)).astype("float32")}


def test_the_noise_of_a_random_model_is_not_rounding():
    model = models.stack(Sampled())
    assert rounding_errors(model, X, KerasRunner(model)(X)) == {}


def test_state_outside_the_config_is_not_rounding():
    layer = Undescribed()
    layer.factor = 3.0
    model = models.stack(layer)
    assert rounding_errors(model, X, KerasRunner(model)(X)) == {}


def with_lambda():
    """A model that does not run in float64."""
    return models.of(keras.layers.Lambda(lambda x: tf.cast(x, "float32") + 1))


@pytest.mark.parametrize(
    ("build", "error", "changes", "is_rounding"),
    [
        (lambda: models.stack(keras.layers.Dense(2)), 1e-8, {}, True),
        (lambda: models.stack(keras.layers.Dense(2)), 1e-3, {}, False),
        (lambda: models.stack(keras.layers.Dense(2)), np.nan, {}, False),
        (lambda: models.stack(keras.layers.Dense(2)), 0.0, {"passed": False}, False),
        (with_lambda, 1e-9, {}, False),
    ],
    ids=["small", "large", "NaN", "failed without a difference", "not measured"],
)
def test_differences_of_the_size_of_rounding_are_explained(build, error, changes, is_rounding):
    model = build()
    expected = KerasRunner(model)(X)
    case = Case("batch 4, length 7", (0, 1, 2, 3), 7, X, outputs=expected)
    results = compare(expected, {name: y + error for name, y in expected.items()}, 0.0, 0.0)
    found = Rounding(model).explain(case, [dataclasses.replace(c, **changes) for c in results])
    assert (found is not None) == is_rounding
    if is_rounding:
        assert "rounding alone changes this output" in found
