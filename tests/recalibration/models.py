"""A small model, its data, and the statistics that it should have."""

import keras
import numpy as np
import pytest

import keras_norm

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, size=(70, 4)).astype("float32")


def model_of(*layers, shape=(4,)):
    return keras.Sequential([keras.Input(shape), *layers])


def assert_has_statistics_of(layer, x, row=(), rtol=1e-5, ddof=0):
    """Assert that the moving statistics, or a row of them, are the statistics of x.

    The statistics of x are computed over all but the last axis.
    """
    x = np.asarray(x, "float64").reshape(-1, x.shape[-1])
    np.testing.assert_allclose(layer.moving_mean[row], x.mean(axis=0), rtol=rtol, atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance[row], x.var(axis=0, ddof=ddof), rtol=rtol)


def assert_refused(model, data, message, error=ValueError, **kwargs):
    """Assert that the call fails with the message, and that no variable of the model changes."""
    before = [keras.ops.convert_to_numpy(v) for v in model.variables]
    with pytest.raises(error, match=message):
        keras_norm.recalibrate(model, data, **kwargs)
    for was, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(variable, was)
