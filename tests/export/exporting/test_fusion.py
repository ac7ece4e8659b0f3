"""LSTMs as one operation: against the float64 oracle and Keras, at any shape, call after call."""

import keras
import numpy as np
import pytest
from ai_edge_litert import interpreter

import keras_norm
from keras_norm.export import VerificationError, export_tflite
from keras_norm.export.comparing import verify
from keras_norm.export.comparing.reference import make_reference
from keras_norm.export.exporting import fusion
from keras_norm.export.formats.tflite import FUSED_LSTM
from keras_norm.export.runners import KerasRunner, TFLiteRunner
from tests import oracles
from tests.export import models

UNITS = 20  # so that the states of more sequences need more memory, however it is aligned
# A recurrence magnifies rounding, in Keras as in TFLite: long sequences would test that.
SHAPES = ((1, 4), (3, 7), (1, 4), (9, 12), (5, 1))


def joint(units=UNITS, **arguments):
    return keras_norm.LayerNormLSTM(units, norm_form="joint", **arguments)


def drawn(model):
    """The model with random weights, gains and offsets too."""
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(weight.numpy() + 0.1 * rng.normal(size=weight.shape))
    return model


def sequential(*layers):
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers])


@pytest.fixture(scope="module")
def deep():
    """LSTMs of all kinds that can be fused, and a layer whose sizes TFLite finds at run time."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    hidden = keras.layers.Dense(6)(keras.layers.Embedding(9, 4)(ids))
    hidden = keras.layers.Bidirectional(joint(return_sequences=True))(hidden)
    whole, h, c = keras.layers.LSTM(40, return_sequences=True, return_state=True)(hidden)
    last = keras_norm.NormLSTM(5, use_bias=False, go_backwards=True)(whole)
    outputs = {"y": keras.layers.Dense(2)(last), "whole": whole, "h": h, "c": c}
    return drawn(keras.Model(ids, outputs))


@pytest.fixture(scope="module")
def deep_in_keras(deep):
    return KerasRunner(deep)


@pytest.fixture(scope="module")
def deep_file(deep, tmp_path_factory):
    return export_tflite(deep, tmp_path_factory.mktemp("deep") / "m.tflite", fused=True)


def test_every_lstm_is_one_operation_and_there_is_no_loop(deep_file):
    with TFLiteRunner(deep_file) as run:
        ops = run.ops()
    assert len(ops[FUSED_LSTM]) == 4
    assert "WHILE" not in ops


@pytest.mark.parametrize(
    "resolver", ["AUTO", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"], ids=["XNNPACK", "no delegate"]
)
def test_every_call_starts_from_zero_at_any_batch_and_length(deep_in_keras, deep_file, resolver):
    kind = getattr(interpreter.OpResolverType, resolver)
    runner = interpreter.Interpreter(str(deep_file), experimental_op_resolver_type=kind)
    run = runner.get_signature_runner()
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        ids = rng.integers(0, 9, shape).astype("int32")
        first, again = run(ids=ids), run(ids=ids)
        models.assert_same(first, deep_in_keras({"ids": ids}))
        models.assert_same(again, first, atol=0)


def test_weights_are_stored_once(deep, deep_file):
    assert deep_file.stat().st_size < 4 * deep.count_params() + 20_000


def test_a_file_with_too_few_fused_lstms_is_refused(deep_file):
    with pytest.raises(VerificationError, match=r"has 4 of 5 fused LSTMs"):
        verify.verify_file(deep_file, make_reference(models.dense()), lstms=5)


def test_the_joint_form_agrees_with_float64_and_has_a_step_beside_it(tmp_path):
    epsilon = 1e-3
    norm = keras_norm.LayerNormalization(epsilon=epsilon)
    layer = keras_norm.NormLSTM(UNITS, norm, norm_form="joint", return_sequences=True)
    model = drawn(sequential(layer))
    kernel, recurrent_kernel, bias, *norms = [w.astype("float64") for w in model.get_weights()]
    slots = {
        f"{gate}_norm": lambda z, g=gamma, b=beta: oracles.layer_norm(z, g, b, epsilon=epsilon)
        for gate, gamma, beta in zip(
            ("input", "forget", "cell", "output"), norms[::2], norms[1::2], strict=True
        )
    }
    x = np.random.default_rng(2).normal(size=(4, 30, 3)).astype("float32")
    states = [np.zeros((4, UNITS))] * 2
    expected = []
    for t in range(30):
        h, states = oracles.lstm_step(
            x[:, t], states, kernel, recurrent_kernel, bias, norm_form="joint", **slots
        )
        expected.append(h)
    path = export_tflite(model, tmp_path / "m.tflite", fused=True, step=True)
    with TFLiteRunner(path) as run:
        (actual,) = run({"x": x}).values()
    np.testing.assert_allclose(actual, np.stack(expected, 1), rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def rounded(tmp_path_factory):
    """A model of both forms, and its file with kernels of 8 bits."""
    layers = joint(40, return_sequences=True), keras.layers.LSTM(40), keras.layers.Dense(2)
    model = drawn(sequential(*layers))
    path = tmp_path_factory.mktemp("rounded") / "m.tflite"
    return model, export_tflite(model, path, fused=True, quantize="dynamic")


def test_a_step_stands_beside_fused_lstms_only_where_it_is_asked_for(rounded):
    with TFLiteRunner(rounded[1]) as run:
        assert run.signatures() == ["serving_default"]
        assert len(run.ops()[FUSED_LSTM]) == 2


def test_kernels_of_8_bits_are_of_use_at_any_batch_and_length(rounded):
    model, path = rounded
    in_keras, rng = KerasRunner(model), np.random.default_rng(3)
    with TFLiteRunner(path) as run:
        cases = [{"x": rng.normal(size=(*shape, 3)).astype("float32")} for shape in SHAPES]
        expected, actual = (
            [next(iter(answer(x).values())) for x in cases] for answer in (in_keras, run)
        )
    spread = np.concatenate(expected).std()  # one row says little of it
    for y, found in zip(expected, actual, strict=True):
        assert np.sqrt(np.mean((found - y) ** 2)) < 0.05 * spread


def test_kernels_of_8_bits_are_stored_once(rounded):
    model, path = rounded
    kernels = sum(w.size for w in model.get_weights() if w.ndim == 2)
    assert path.stat().st_size < kernels + 20_000 < 2 * kernels + 20_000


def masked():
    ids = keras.Input((None,), name="ids")
    return keras.Model(ids, joint()(keras.layers.Embedding(9, 4, mask_zero=True)(ids)))


def resumed():
    x, h = keras.Input((None, 3), name="x"), keras.Input((4,), name="h")
    return keras.Model([x, h], keras.layers.LSTM(4)(x, initial_state=[h, h]))


def resumed_by_itself():
    x, layer = keras.Input((None, 4), name="x"), keras.layers.LSTM(4, return_state=True)
    _, h, c = layer(x)
    return keras.Model(x, layer(x, initial_state=[h, c])[0])


def joint_with(norm):
    return sequential(keras_norm.NormLSTM(4, norm, norm_form="joint"))


LayerNorm = keras_norm.LayerNormalization
REFUSED = {
    "GRU": (
        lambda: sequential(keras_norm.LayerNormGRU(4)),
        "and no LayerNormGRUCell",
    ),
    "stacked": (
        lambda: sequential(keras.layers.RNN([keras.layers.LSTMCell(4)])),
        "and no StackedRNNCells",
    ),
    "BatchNorm": (
        lambda: sequential(keras_norm.BatchNormLSTM(4, max_timesteps=5)),
        "and no BatchNormLSTMCell",
    ),
    "activation": (
        lambda: sequential(keras.layers.LSTM(4, activation="relu")),
        "has activation=tanh only",
    ),
    "recurrent activation": (
        lambda: sequential(joint(recurrent_activation="hard_sigmoid")),
        "has recurrent_activation=sigmoid only",
    ),
    "separate form": (
        lambda: sequential(keras_norm.LayerNormLSTM(4)),
        'has the joint form only, norm_form="joint"',
    ),
    "one norm": (lambda: joint_with({"cell_norm": LayerNorm()}), "every gate or in none"),
    "RMSNorm": (
        lambda: joint_with(keras_norm.RMSNormalization()),
        "its input_norm is RMSNormalization",
    ),
    "epsilon outside": (
        lambda: joint_with(LayerNorm(epsilon_placement="outside")),
        'has epsilon_placement="inside"',
    ),
    "unbiased": (lambda: joint_with(LayerNorm(ddof=1)), "ddof=0 only"),
    "no epsilon": (lambda: joint_with(LayerNorm(epsilon=0.0)), "with epsilon=0.0"),
    "mask": (masked, "it receives a mask"),
    "initial state": (resumed, "it receives an initial_state"),
    "own state": (resumed_by_itself, "it receives an initial_state"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_operation_cannot_express_is_refused_with_the_layer(tmp_path, kind):
    build, reason = REFUSED[kind]
    with pytest.raises(ValueError, match=rf'layer ".+" \(\w+\) cannot be fused: .*{reason}.*fused'):
        export_tflite(build(), tmp_path / "m.tflite", fused=True)
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_recurrent_layer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no LSTM to fuse"):
        export_tflite(models.dense(), tmp_path / "m.tflite", fused=True)


def test_a_model_is_its_own_again_after_a_refusal():
    model = masked()
    with pytest.raises(ValueError, match="mask"):
        fusion.call(model, {"ids": np.ones((2, 3))})
    assert model(np.ones((2, 3))).shape == (2, UNITS)
