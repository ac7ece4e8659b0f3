"""TFLite files of recurrent and other layers; files that are not written."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import keras_norm
from keras_norm.export import RunnerError, export_tflite
from keras_norm.export.formats.tflite.conversion import convert_model
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models
from tests.rnn import kinds

# Every public layer that is no recurrence, and every family of recurrences once: what they have in
# common is one loop, and each more of them takes seconds to trace and to convert.
RECURRENT = {
    "backward": lambda: keras_norm.LayerNormGRU(3, go_backwards=True),
    "joint form, with states": lambda: keras_norm.LayerNormLSTM(
        8, norm_form="joint", return_sequences=True, return_state=True
    ),
    "RMSNorm": lambda: keras_norm.NormSimpleRNN(
        3, keras_norm.RMSNormalization(), return_sequences=True
    ),
    "timesteps": lambda: keras_norm.BatchNormSimpleRNN(3, max_timesteps=5),
}


def other_layers():
    """List the public layers that are not recurrent, by name."""
    found = {}
    for name in keras_norm.__all__:
        layer = getattr(keras_norm, name)
        is_layer = isinstance(layer, type) and issubclass(layer, keras.layers.Layer)
        if not is_layer or name.endswith("Cell"):
            continue
        if not issubclass(layer, keras.layers.RNN | keras.layers.Bidirectional):
            found[name] = layer(**({"max_timesteps": 5} if name.startswith("Timestep") else {}))
    return found


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """Build a masked model of all these layers in parallel, and export its file."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    layers = other_layers() | {name: make() for name, make in RECURRENT.items()}
    model = keras.Model(ids, {name: layer(x) for name, layer in layers.items()})
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    path = tmp_path_factory.mktemp("layered") / "model.tflite"
    return model, export_tflite(model, path, step=False)


@pytest.fixture
def subgraphs(converter, tmp_path):
    """Return a function that converts a layer, and lists the operations of each subgraph."""
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}

    def convert(layer):
        inputs, file = keras.Input((None, 3)), tmp_path / "m.tflite"
        convert_model(keras.Model(inputs, layer(inputs)), file, converter, quantize=None)
        model = schema.ModelT.InitFromPackedBuf(file.read_bytes(), 0)
        codes = [names[max(c.builtinCode, c.deprecatedBuiltinCode)] for c in model.operatorCodes]
        return [[codes[op.opcodeIndex] for op in g.operators or ()] for g in model.subgraphs]

    return convert


def test_every_layer_runs_at_any_batch_and_length_with_masks(layered):
    model, path = layered
    keras_runner, rng = KerasRunner(model), np.random.default_rng(0)
    with TFLiteRunner(path) as run:
        for shape in ((1, 4), (5, 20), (1, 4)):
            data = {"ids": rng.integers(0, 9, shape)}
            models.assert_same(run(data), keras_runner(data))
        ops = run.ops()
    assert "WHILE" in ops
    assert not any(op.startswith("Flex") for op in ops)


def test_products_read_their_inputs_without_a_copy(layered):
    # LiteRT 2.3 can omit this copy after a batch of another shape, and compute with old numbers.
    model = schema.ModelT.InitFromPackedBuf(layered[1].read_bytes(), 0)
    operators = [op for graph in model.subgraphs for op in graph.operators or ()]
    product = schema.BuiltinOptions.FullyConnectedOptions
    options = [op.builtinOptions for op in operators if op.builtinOptionsType == product]
    assert options
    assert all(option.keepNumDims for option in options)


def test_a_timestep_computes_one_product_and_writes_one_row(subgraphs):
    graphs = subgraphs(keras_norm.LayerNormLSTM(4, return_sequences=True))
    body = next(ops for ops in graphs if "TANH" in ops)
    assert body.count("FULLY_CONNECTED") == body.count("GATHER") == 1
    assert body.count("DYNAMIC_UPDATE_SLICE") == 1
    # Of h U the mean square alone; of c the mean and the square.
    assert body.count("MEAN") == 1 + 2
    # Whatever depends on the run's shapes has TFLite plan the rest of the step at every step.
    assert not {"SHAPE", "TRANSPOSE", "BATCH_MATMUL", "SCATTER_ND", "BROADCAST_TO"} & set(body)


def test_a_layer_without_return_sequences_writes_no_sequence(subgraphs):
    graphs = subgraphs(keras_norm.LayerNormSimpleRNN(4))
    assert not any("DYNAMIC_UPDATE_SLICE" in ops for ops in graphs)
    assert sum(ops.count("WHILE") for ops in graphs) == 1


def test_a_file_of_dynamic_weights_is_small_and_has_a_small_error(tmp_path, converter):
    inputs = keras.Input((None, 40), name="x")
    hidden = keras.layers.Dense(64, activation="tanh")(inputs)
    wide = keras.Model(inputs, keras.layers.Dense(40, name="y")(hidden))
    path = tmp_path / "m.tflite"
    convert_model(wide, path, converter, quantize="dynamic")
    assert path.stat().st_size < 3 * wide.count_params()  # of 4 bytes each in float32
    data = {"x": np.random.default_rng(0).normal(size=(2, 3, 40))}
    with TFLiteRunner(path) as run:
        models.assert_same(run(data), KerasRunner(wide)(data), atol=0.05)


def test_a_convolutional_lstm_runs_at_any_batch_and_length(tmp_path):
    inputs = keras.Input((None, 6, 1), name="x")
    frames = keras.layers.ConvLSTM1D(2, 3, padding="same", return_sequences=True)
    model = keras.Model(inputs, frames(inputs))
    with TFLiteRunner(export_tflite(model, tmp_path / "m.tflite", step=False)) as run:
        for batch, time in ((1, 5), (3, 2)):
            data = {"x": np.random.default_rng(batch).normal(size=(batch, time, 6, 1))}
            models.assert_same(run(data), KerasRunner(model)(data))


def test_a_path_that_tensorflow_reads_as_a_pattern_is_written(tmp_path):
    assert export_tflite(models.dense(), tmp_path / "run[1]" / "m.tflite").is_file()


def test_a_file_that_fails_at_a_second_shape_is_not_written(tmp_path):
    # TFLite's RFFT takes powers of two only: it converts, and fails when it runs.
    model = models.with_function(lambda x: tf.abs(tf.signal.rfft(x)))
    with pytest.raises(RunnerError, match=r"IsPowerOfTwo|RFFT"):
        export_tflite(model, tmp_path / "model.tflite")
    assert list(tmp_path.iterdir()) == []


def of_timesteps():
    return models.of(keras_norm.BatchNormLSTM(2, max_timesteps=4))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (models.dense, {"quantize": "int4"}, "quantize must be None, .* received"),
        (models.dense, {"path": "model.tf"}, r'must end in ".tflite"; received .*model.tf$'),
        (models.dense, {"signature": "serving_default"}, "None for whole sequences"),
        (models.dense, {"signature": "step", "step": True}, "Leave step out"),
        (models.dense, {"signature": "step", "step": False}, "Leave step out"),
        (models.dense, {"quantize": "int8", "step": True}, 'signature only: signature="step"'),
        (models.dense, {"signature": "step"}, "has no recurrent layer"),
        (of_timesteps, {"quantize": "dynamic"}, "for each timestep.*samples="),
    ],
)
def test_an_unsupported_model_or_argument_is_refused(tmp_path, make, arguments, message):
    path = tmp_path / arguments.pop("path", "model.tflite")
    with pytest.raises(ValueError, match=message):
        export_tflite(make(), path, **arguments)
    assert list(tmp_path.iterdir()) == []
