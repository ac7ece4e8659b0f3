"""Compare layers, `recalibrate` and `convert` on the JAX or the PyTorch backend with TensorFlow.

`test_backends` runs this file. The program prints a dict from comparisons to error messages as
JSON. It reads files of TensorFlow in the folder, and saves a model that was trained on the backend,
with its outputs. The custom gradient is compared with the loop, which the backend differentiates.

Usage: KERAS_BACKEND=jax python -m tests.compare_on_backend FOLDER
"""

import json
import pathlib
import sys
import traceback

import keras
import numpy as np
import pytest
from keras import ops

import keras_norm
from keras_norm import LayerNormalization, RMSNormalization, TimestepBatchNormalization
from keras_norm.rnn import compiled
from tests.gradients_of_backend import run, with_gradients
from tests.rnn.core.extensions import (
    HEAD_NORMS,
    HEADS,
    SLSTM,
    MeanNormalization,
    MixingLSTM,
    model_layers,
)

BATCH, TIME, FEATURES, UNITS = 8, 5, 4, 4
TOLERANCE = 1e-5  # Keras computes in float32 on JAX and PyTorch, whatever the dtype

LSTM, GRU, SIMPLE_RNN = keras_norm.NormLSTM, keras_norm.NormGRU, keras_norm.NormSimpleRNN
LAYER_NORM, RMS_NORM = LayerNormalization(), RMSNormalization(epsilon=1e-3)
UNBIASED = LayerNormalization(epsilon=0.1, epsilon_placement="outside", ddof=1)
TIMESTEP = TimestepBatchNormalization(TIME - 1, momentum=0.7)
MIXED = {"kernel_norm": TIMESTEP, "recurrent_norm": LAYER_NORM, "state_norm": RMS_NORM}

# Timestep 4 has one unmasked sequence; at least five keep the other batch norms well conditioned.
MASK = np.array(
    [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0],
    ],
    bool,
)
DROPOUT = {"dropout": 0.3, "recurrent_dropout": 0.3}
OPTIONS = {"peepholes": True, "cell_clip": 0.5, "projection_units": 3, "candidate_dropout": 0.3}
LAST = {"return_sequences": False}
RESETS = {"resets": np.arange(BATCH * TIME).reshape(BATCH, TIME) % 3 == 1}

# The layer class, the norm, the mask, the options of the layer, and whether to train.
COMPARISONS = {
    "LSTM, LayerNorm, mask": (LSTM, LAYER_NORM, MASK, {}, True),
    "LSTM, three norms, mask, dropout": (LSTM, MIXED, MASK, DROPOUT, True),
    "LSTM, ddof=1 and epsilon outside": (LSTM, UNBIASED, MASK, LAST, True),
    "LSTM, LayerNorm, resets": (LSTM, LAYER_NORM, MASK, RESETS, True),
    "LSTM, batch norm, inference, resets": (LSTM, TIMESTEP, MASK, {**RESETS, **LAST}, False),
    "GRU, LayerNorm, backwards": (GRU, LAYER_NORM, MASK, {"go_backwards": True}, True),
    "GRU, batch norm, mask": (GRU, TIMESTEP, MASK, {}, True),
    "GRU, no norm, dropout": (GRU, None, None, {**DROPOUT, **LAST}, True),
    "LSTM, joint, mask": (LSTM, LAYER_NORM, MASK, {"norm_form": "joint"}, True),
    "GRU, joint_all, dropout": (GRU, LAYER_NORM, MASK, {"norm_form": "joint_all", **DROPOUT}, True),
    "LSTM, options": (LSTM, LAYER_NORM, MASK, OPTIONS, True),
    "LSTM, options, batch norm, inference": (LSTM, TIMESTEP, MASK, OPTIONS, False),
    "LSTM, zoneout": (LSTM, LAYER_NORM, MASK, {"zoneout": 0.3, "cell_zoneout": 0.5}, True),
    "GRU, zoneout, inference": (GRU, LAYER_NORM, MASK, {"zoneout": 0.3}, False),
    "SimpleRNN, RMSNorm, no bias": (SIMPLE_RNN, RMS_NORM, MASK, {"use_bias": False}, True),
    "SimpleRNN, batch norm, dropout": (SIMPLE_RNN, TIMESTEP, None, DROPOUT, True),
    "cell and norm of a user": (MixingLSTM, MeanNormalization(), MASK, {}, True),
    "cell of the guide": (SLSTM, HEAD_NORMS, MASK, {"heads": HEADS, **RESETS}, True),
}


def build(layer_class, norm, **options):
    """Build a layer; JAX compiles every eager operation, so its kernels are zeros."""
    zeros = {f"{name}_initializer": "zeros" for name in ("kernel", "recurrent", "bias")}
    options = {"return_sequences": True, "return_state": True, "seed": 3, **zeros, **options}
    layer = layer_class(UNITS, norm=norm, **options)
    layer.build((BATCH, TIME, FEATURES))
    return layer


def draw(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def draw_values(variables, rng):
    """Draw a value for each variable; integers, such as random seeds, keep their values."""
    values = []
    for variable in variables:
        value = ops.convert_to_numpy(variable.value)
        if value.dtype.kind == "f":
            value = value + 0.5 * draw(rng, *value.shape)
        values.append(np.abs(value) if variable.name == "moving_variance" else value)
    return values


def values_of(layer):
    """Draw the sources of gradients, and the values of the other variables."""
    rng = np.random.default_rng(0)
    rest = draw_values(layer.non_trainable_variables, rng)
    return rest, {
        "inputs": draw(rng, BATCH, TIME, FEATURES),
        "states": [draw(rng, BATCH, n) for n in layer.cell.recurrent_state_sizes],
        "weights": draw_values(layer.trainable_variables, rng),
    }


def loss_of(layer, rest, mask=None, training=True, **call):
    """Return a function that maps sources to a nonlinear sum of the results, and the results."""

    def loss(sources):
        weights, inputs, states = (sources[name] for name in ("weights", "inputs", "states"))
        options = {"initial_state": states, "mask": mask, "training": training, **call}
        (outputs, *last), after = layer.stateless_call(weights, rest, inputs, **options)
        total = sum(ops.sum(ops.sin(3.0 * y)) for y in (outputs, *last))
        return total, {"outputs": outputs, "states": last, "statistics": after}

    return loss


def compute_all(layer, mask, training, **call):
    """Compute outputs, last states, statistics, and the gradients of a nonlinear sum, by name."""
    rest, sources = values_of(layer)
    loss = loss_of(layer, rest, mask, training, **call)
    (_, results), gradients = run(with_gradients(loss), sources)
    return results | {f"gradients of {name}": g for name, g in gradients.items()}


def assert_close(actual, expected, name):
    """Compare trees of arrays, with a tolerance relative to the largest number of each array."""
    trees = (map(ops.convert_to_numpy, keras.tree.flatten(tree)) for tree in (actual, expected))
    for a, e in zip(*trees, strict=True):
        assert a.dtype == e.dtype
        atol = TOLERANCE * np.max(np.abs(e), initial=1.0)
        np.testing.assert_allclose(a, e, rtol=0, atol=atol, err_msg=name)


def compare(layer_class, norm, mask, options, training):
    """Compare the custom gradient of a layer with the loop."""
    call = {name: options[name] for name in RESETS if name in options}
    options = {name: value for name, value in options.items() if name not in call}
    of_loop, found = (
        compute_all(build(layer_class, norm, compiled=compiled, **options), mask, training, **call)
        for compiled in (False, True)
    )
    assert found.keys() == of_loop.keys()
    for name, expected in of_loop.items():
        assert_close(found[name], expected, name)


def compare_padding():
    """Compare sequences padded on the left with sequences padded on the right, in training."""
    lengths = np.array([5, 4, 4, 2, 3, 2, 5, 1])
    right = np.arange(TIME) < lengths[:, None]
    rest, sources = values_of(build(GRU, TIMESTEP))

    def pad_left(x):
        rows = zip(ops.convert_to_numpy(x), TIME - lengths, strict=True)
        return np.stack([np.roll(row, n, axis=0) for row, n in rows])

    found = []
    for mask, inputs in (
        (right, sources["inputs"]),
        (pad_left(right), pad_left(sources["inputs"])),
    ):
        loss = loss_of(build(GRU, TIMESTEP, return_sequences=False), rest, mask)
        (_, results), gradients = run(with_gradients(loss), {**sources, "inputs": inputs})
        found.append([results, gradients])
    found[0][1]["inputs"] = pad_left(found[0][1]["inputs"])
    assert_close(found[1], found[0], "padding")


def compare_second_derivatives():
    """Compare the gradient of a gradient penalty with that of the loop."""

    def penalty(layer):
        rest, sources = values_of(layer)

        def square_of_gradients(sources):
            _, gradients = with_gradients(loss_of(layer, rest))(sources)
            return sum(ops.sum(g**2) for g in keras.tree.flatten(gradients)), ()

        return run(with_gradients(square_of_gradients), sources)[1]

    found, expected = (penalty(build(SIMPLE_RNN, LAYER_NORM, compiled=c)) for c in (True, False))
    assert_close(found, expected, "second derivatives")


def count_runs_of_auto():
    """Check that compiled="auto" runs the custom gradient in training and at inference."""
    adapter = compiled.load_adapter()
    calls, run_adapter = [], adapter.run

    def counted(*args, training, **kwargs):
        calls.append(training)
        return run_adapter(*args, training=training, **kwargs)

    adapter.run = counted
    try:
        for options in ({}, {"compiled": False}, {"activation": "relu"}, {"unroll": True}):
            layer = build(LSTM, LAYER_NORM, **options)
            for training in (True, False):
                layer(np.zeros((BATCH, TIME, FEATURES), "float32"), training=training)
            assert calls == [True, False], (options, calls)
    finally:
        adapter.run = run_adapter


def train_and_save(folder):
    """Train a masked model by `fit`, and save the model, its inputs and its outputs."""
    x = draw(np.random.default_rng(0), 16, TIME, FEATURES)
    x[:4, 2:] = 0.0
    model = keras.Sequential([keras.Input((None, FEATURES)), *model_layers()])
    # A model that was compiled on JAX has jit_compile=True, which takes minutes on PyTorch.
    on_torch = keras.backend.backend() == "torch"
    assert all(layer.supports_jit != on_torch for layer in model.layers[1:-1])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    history = model.fit(x, x[..., :1], batch_size=8, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0], history
    model.save(folder / "model.keras")
    np.savez(folder / "arrays.npz", inputs=x, outputs=model.predict(x, verbose=0))


def load_and_predict(folder):
    """Load a model that was trained on TensorFlow, and compare its outputs."""
    model = keras.saving.load_model(folder / "tensorflow.keras")
    arrays = np.load(folder / "tensorflow.npz")
    outputs = model.predict(arrays["inputs"], verbose=0)
    np.testing.assert_allclose(outputs, arrays["outputs"], rtol=0, atol=TOLERANCE)


def recalibrate(folder):
    """Recalibrate a model of TensorFlow, and compare the weights with those on TensorFlow."""
    data = dict(np.load(folder / "data.npz"))
    model = keras.saving.load_model(folder / "recalibrated.keras")
    assert keras_norm.recalibrate(model, data) == 2
    expected = dict(np.load(folder / "weights.npz")).values()
    for weight, value in zip(model.weights, expected, strict=True):
        actual = ops.convert_to_numpy(weight)
        np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-5, err_msg=weight.path)


def recalibrate_cell(folder):
    """Recalibrate a cell in keras.layers.RNN.

    With unroll=False, JAX loses the assignments of a cell; Keras' fit fails too.
    """
    x = np.load(folder / "data.npz")["sequences"][:, :2]

    def build_model(unroll):
        cell = keras_norm.BatchNormSimpleRNNCell(2, max_timesteps=2)
        return keras.Sequential([keras.Input((2, 3)), keras.layers.RNN(cell, unroll=unroll)])

    if keras.backend.backend() == "jax":
        with pytest.raises(ValueError, match="Set unroll=True, use a layer such as BatchNormLSTM"):
            keras_norm.recalibrate(build_model(False), x)
    else:
        assert keras_norm.recalibrate(build_model(False), x) == 2
    model = build_model(True)
    assert keras_norm.recalibrate(model, x) == 2
    cell = model.layers[0].cell
    norm = cell.kernel_norm
    weights = cell.kernel, norm.moving_mean, norm.moving_variance
    kernel, mean, variance = map(ops.convert_to_numpy, weights)
    x = x.astype("float64") @ kernel.astype("float64")
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, x.var(axis=0), rtol=1e-4)


def convert():
    """Convert a model of Keras: on JAX `fit` deletes buffers, so the models must share none."""
    lstm = keras.layers.LSTM(3, kernel_initializer="zeros", recurrent_initializer="zeros")
    model = keras.Sequential([keras.Input((4, 2)), lstm, keras.layers.Dense(1)])
    x = np.random.default_rng(0).normal(size=(8, 4, 2))
    model.compile("sgd", "mse")
    before = model.predict(x, verbose=0)
    converted = keras_norm.convert(model, None, verbose=False)
    np.testing.assert_allclose(converted.predict(x, verbose=0), before, rtol=0, atol=1e-6)
    converted.fit(x, np.ones((8, 1)), verbose=0)
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)


def main(folder):
    """Run all comparisons."""
    assert keras.backend.backend() in ("jax", "torch")
    keras.utils.set_random_seed(0)
    checks = {name: (compare, *given) for name, given in COMPARISONS.items()}
    checks |= {"second derivatives": (compare_second_derivatives,), "auto": (count_runs_of_auto,)}
    checks |= {"convert": (convert,), "padding": (compare_padding,)}
    for check in (train_and_save, load_and_predict, recalibrate, recalibrate_cell):
        checks[check.__name__] = (check, pathlib.Path(folder))
    errors = {}
    for name, (check, *given) in checks.items():
        try:
            check(*given)
            errors[name] = ""
        except Exception:
            errors[name] = traceback.format_exc()
    print(json.dumps(errors))


if __name__ == "__main__":
    main(sys.argv[1])
