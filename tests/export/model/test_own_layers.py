"""Recurrent layers of keras_norm, and layers of a user that call or extend them, in exports."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import export_onnx, export_saved_model, export_tflite, open_runner
from keras_norm.export.formats.onnx.export_onnx import ONNX_FUNCTIONS
from keras_norm.export.formats.tflite.tflite_loop import TFLITE_FUNCTIONS
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.ops import tensorflow_scan
from keras_norm.ops.scan import scan
from keras_norm.rnn import compiled as compiled_path
from keras_norm.rnn import loop
from keras_norm.rnn.norm_rnn import NormRNN
from tests.export import models

EXPORTERS = {
    "model": partial(export_saved_model, step=False),
    "model.tflite": partial(export_tflite, step=False),
    "model.onnx": export_onnx,
}
FUNCTIONS = {"SavedModel": {}, "TFLite": TFLITE_FUNCTIONS, "ONNX": ONNX_FUNCTIONS}

every_exporter = pytest.mark.parametrize(("name", "export"), EXPORTERS.items(), ids=EXPORTERS)
every_format = pytest.mark.parametrize("functions", FUNCTIONS.values(), ids=FUNCTIONS)


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


class Cumulated(keras.layers.Layer):
    """Calls `scan` itself."""

    def call(self, x):
        def step(carry, xs):
            total = carry[0] + xs[0]
            return [total], [total]

        xs = keras.ops.moveaxis(x, 1, 0)
        zeros = keras.ops.zeros_like(xs[0])
        return keras.ops.moveaxis(scan(step, [xs], [zeros], [zeros])[1][0], 0, 1)

    def compute_output_shape(self, shape):
        return shape


class Doubled(keras_norm.LayerNormSimpleRNN):
    """Overrides `inner_loop`."""

    def inner_loop(self, *args, **kwargs):
        last, outputs, states = super().inner_loop(*args, **kwargs)
        return 2.0 * last, 2.0 * outputs, states


class Hidden(keras.layers.Layer):
    """Calls a layer that Keras does not track."""

    def __init__(self):
        super().__init__()
        layer = keras_norm.LayerNormSimpleRNN(2, return_sequences=True, compiled=True)
        layer.build((None, None, 3))
        self.run = lambda x: layer(x)

    def call(self, x):
        return self.run(x)

    def compute_output_shape(self, shape):
        return (*shape[:2], 2)


@pytest.fixture(scope="module")
def branched():
    """Build a model with one output for each kind of layer.

    The layers are simple RNNs, because larger cells take seconds to trace and to convert.
    """
    cells = [keras_norm.LayerNormSimpleRNNCell(3), keras.layers.SimpleRNNCell(2)]
    layers = {
        "calls_scan": Cumulated(),
        "overrides_inner_loop": Doubled(2, return_sequences=True),
        "calls_an_untracked_layer": Hidden(),
        "cells_in_RNN": keras.layers.RNN(cells, return_sequences=True),
    }
    x = keras.Input((None, 3), name="x")
    outputs = {name: layer(x) for name, layer in layers.items()}
    frames = keras.layers.Reshape((-1, 3, 1))(x)
    outputs["frames"] = keras.layers.TimeDistributed(keras.layers.Conv1D(3, 2))(frames)
    return keras.Model(x, outputs)


@every_exporter
def test_a_file_runs_any_batch_size_and_length(branched, name, export, tmp_path):
    with open_runner(export(branched, tmp_path / name)) as run:
        for batch, time in ((1, 5), (17, 9)):
            x = draw(batch, time, 3)
            # Keras' graph of TimeDistributed runs as many timesteps as the batch has samples.
            expected = {name: np.array(y) for name, y in branched(x).items()}
            models.assert_same(run({"x": x}), expected, atol=2e-5)  # 1.6e-5 on TensorFlow 2.18


@every_format
@pytest.mark.parametrize("compiled", ["auto", True])
@pytest.mark.parametrize("training", [False, True])
def test_an_exported_graph_runs_the_uncompiled_loop(monkeypatch, functions, compiled, training):
    ran, run_loop = [], loop.run
    monkeypatch.setattr(loop, "run", lambda *a, **k: ran.append("loop") or run_loop(*a, **k))
    monkeypatch.setattr(compiled_path, "run", lambda *a, **k: ran.append("compiled path"))
    layer = keras_norm.LayerNormSimpleRNN(3, compiled=compiled)
    with portable_layers(layer, functions):
        layer(draw(3, 4, 2), training=training)
    assert ran == ["loop"]


@every_format
@pytest.mark.parametrize("cls", [keras_norm.LayerNormSimpleRNN, keras.layers.SimpleRNN])
def test_the_block_restores_every_function(functions, cls):
    layer = cls(3)
    layer.build((None, None, 2))
    owners = [layer, type(layer), NormRNN, *functions]
    before = [dict(vars(owner)) for owner in owners]
    with pytest.raises(RuntimeError, match="stop"), portable_layers(layer, functions):
        raise RuntimeError("stop")
    assert [dict(vars(owner)) for owner in owners] == before


def test_a_layer_zeroes_no_masked_inputs_and_checks_no_sizes_in_an_exported_graph():
    layer = keras_norm.LayerNormSimpleRNN(3)
    sequences, mask = tf.TensorSpec((None, None, 2)), tf.TensorSpec((None, None), "bool")

    def operations():
        call = tf.function(lambda x, mask: layer(x, mask=mask), autograph=False)
        graph = call.get_concrete_function(sequences, mask).graph
        return [operation.type for operation in graph.get_operations()]

    outside = operations()
    with portable_layers(layer):
        inside = operations()
    assert outside.count("BroadcastTo") > inside.count("BroadcastTo")
    assert outside.count("SelectV2") == inside.count("SelectV2") + 1


def test_scan_runs_by_step_for_onnx(monkeypatch):
    calls, by_step = [], tensorflow_scan.scan_by_step
    monkeypatch.setattr(tensorflow_scan, "scan_by_step", lambda *a: calls.append(a) or by_step(*a))
    layer = keras_norm.LayerNormSimpleRNN(3)
    layer.build((None, None, 2))
    with portable_layers(layer, ONNX_FUNCTIONS):
        tf.function(layer, autograph=False)(draw(3, 20, 2))
    assert len(calls) == 1
