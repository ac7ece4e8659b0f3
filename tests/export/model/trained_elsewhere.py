"""Make a model as if another backend had trained it, without a second process."""

import keras
import numpy as np

from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TRAINED


def trained_on_jax(model: keras.Model, elsewhere: keras.Model | None = None) -> keras.Model:
    """Register `elsewhere`, by default the model itself, as the model on JAX."""
    run = KerasRunner(elsewhere or model)
    TRAINED[model] = "jax", lambda method, *args: getattr(run, method)(*args)
    return model


def with_other_layer(factor: float) -> keras.Model:
    """A model whose second layer, "factor", multiplies by `factor`; equal weights in all models."""
    inputs = keras.Input((None, 3), name="x")
    x = keras.layers.SimpleRNN(4, return_sequences=True, name="rnn")(inputs)
    x = keras.layers.Rescaling(factor, name="factor")(x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(x))
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    return model
