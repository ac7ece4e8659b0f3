"""Loading weights of Flax modules, compared with outputs that Flax computed (`record_flax.py`)."""

import pathlib

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_flax_weights
from tests.compat.recorded import CustomCell, refusal

FEATURES, UNITS, TOKENS = 3, 4, 7
LENGTHS = np.array([5, 3])
ATOL = 1e-6
LAYERS = {
    "LSTMCell": [keras.layers.LSTM, keras_norm.NormLSTM],
    "OptimizedLSTMCell": [keras.layers.LSTM, keras_norm.NormLSTM],
    "GRUCell": [keras.layers.GRU, keras_norm.NormGRU],
    "SimpleCell": [keras.layers.SimpleRNN, keras_norm.NormSimpleRNN],
}
CASES = [(api, cell, LAYERS[cell][k]) for k, api in enumerate(("linen", "nnx")) for cell in LAYERS]


@pytest.fixture(scope="module")
def records():
    path = pathlib.Path(__file__).parents[1] / "data" / "flax_weights.npz"
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def record(records, case):
    """Return the inputs, the outputs and the weights that Flax computed."""
    prefix = f"{case}|weights|"
    weights = {n.removeprefix(prefix): w for n, w in records.items() if n.startswith(prefix)}
    return records[f"{case}|inputs"], records[f"{case}|outputs"], weights


def nest(weights):
    """Return names such as "lstm/ii/kernel" as nested dicts, as a linen module has them."""
    nested = {}
    for name, weight in weights.items():
        *path, last = name.split("/")
        node = nested
        for part in path:
            node = node.setdefault(part, {})
        node[last] = weight
    return nested


def built(layer, features=FEATURES):
    layer.build((None, 5, features))
    return layer


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize(("api", "cell", "cls"), CASES)
def test_a_recurrent_layer_computes_the_outputs_of_flax(api, cell, cls, records):
    x, outputs, weights = record(records, f"{api} {cell}")
    layer = built(cls(UNITS, return_sequences=True))
    load_flax_weights(layer, nest(weights))
    assert_equal(layer(x), outputs)


@pytest.mark.parametrize(("api", "cell", "cls"), CASES)
def test_bidirectional_computes_the_outputs_of_flax(api, cell, cls, records):
    x, outputs, weights = record(records, f"{api} Bidirectional {cell}")
    other = next(each for each in LAYERS[cell] if each is not cls)
    layer = built(keras.layers.Bidirectional(other(UNITS, return_sequences=True)))
    load_flax_weights(layer, nest(weights))
    assert_equal(layer(x), outputs)


def test_a_cell_alone_is_loaded(records):
    x, outputs, weights = record(records, "linen GRUCell")
    cell = keras_norm.NormGRUCell(UNITS)
    layer = built(keras.layers.RNN(cell, return_sequences=True))
    load_flax_weights(cell, nest(weights))
    assert_equal(layer(x), outputs)


def create_model():
    return {
        "embedding": keras.layers.Embedding(TOKENS, FEATURES),
        "encoder": keras.layers.Bidirectional(keras_norm.NormLSTM(UNITS, return_sequences=True)),
        "layer": keras_norm.LayerNormalization(epsilon=1e-6),
        "decoder": keras_norm.NormGRU(UNITS, return_sequences=True, go_backwards=True),
        "rms": keras_norm.RMSNormalization(),
        "batch": keras_norm.BatchNormalization(epsilon=1e-5),
        "head": keras.layers.TimeDistributed(keras.layers.Dense(2)),
    }


def run_model(model, tokens):
    """Run all layers one after the other, and mask the timesteps from LENGTHS on."""
    mask = np.arange(tokens.shape[1]) < LENGTHS[:, None]
    x = model["layer"](model["encoder"](model["embedding"](tokens), mask=mask))
    x = keras.ops.flip(model["decoder"](x, mask=mask), axis=1)
    return np.asarray(model["head"](model["batch"](model["rms"](x)))), mask


def linen_names(model):
    """Return the layers of a compact linen model by the names that Flax gives the modules."""
    return {
        "Embed_0": model["embedding"],
        "OptimizedLSTMCell_0": model["encoder"].forward_layer,
        "OptimizedLSTMCell_1": model["encoder"].backward_layer,
        "LayerNorm_0": model["layer"],
        "GRUCell_0": model["decoder"],
        "RMSNorm_0": model["rms"],
        "BatchNorm_0": model["batch"],
        "Dense_0": model["head"],
    }


def nnx_names(model):
    names = ("embed", "encoder", "norm", "decoder", "rms", "batch", "heads/0")
    return dict(zip(names, model.values(), strict=True))


@pytest.mark.parametrize(
    ("api", "name_layers"), [("linen", linen_names), ("nnx", nnx_names)], ids=["linen", "nnx"]
)
def test_a_whole_model_computes_the_outputs_of_flax(api, name_layers, records):
    tokens, outputs, weights = record(records, f"{api} model")
    model = create_model()
    run_model(model, tokens)
    load_flax_weights(name_layers(model), nest(weights))
    actual, mask = run_model(model, tokens)
    assert_equal(actual[mask], outputs[mask])


def test_a_file_is_loaded(records, tmp_path):
    x, outputs, weights = record(records, "linen LSTMCell")
    np.savez(tmp_path / "w.npz", **{name.replace("/", "."): w for name, w in weights.items()})
    layer = built(keras.layers.LSTM(UNITS, return_sequences=True))
    load_flax_weights(layer, tmp_path / "w.npz")
    assert_equal(layer(x), outputs)


@pytest.mark.parametrize("prefix", ["decoder", "decoder/", "decoder/cell"])
def test_a_prefix_selects_a_module(prefix, records):
    _, _, weights = record(records, "nnx model")
    layer = built(keras.layers.GRU(UNITS), 2 * UNITS)
    load_flax_weights(layer, nest(weights), prefix)
    r, z, n = np.split(weights["decoder/cell/dense_h/kernel"], 3, axis=1)
    assert_equal(layer.cell.recurrent_kernel, np.concatenate([z, r, n], axis=1))


def lstm_weights():
    rng = np.random.default_rng(0)
    gates = {"ii": FEATURES, "if": FEATURES, "ig": FEATURES, "io": FEATURES}
    gates |= {"hi": UNITS, "hf": UNITS, "hg": UNITS, "ho": UNITS}
    kernels = {f"{gate}/kernel": rng.normal(size=(rows, UNITS)) for gate, rows in gates.items()}
    return kernels | {f"{gate}/bias": rng.normal(size=UNITS) for gate in list(gates)[4:]}


VECTORS = {name: np.ones(FEATURES) for name in ("scale", "bias", "mean", "var")}
CHANGES = [  # `test_named_weights.py` tests all entries that do not fit
    ({"hf/bias": None}, "Missing entries: hf/bias."),
    ({"ii/kernel": np.ones((UNITS, FEATURES))}, "is transposed"),
    ({"ho.kernel": np.ones((UNITS, UNITS))}, "Two entries of the weights have the name 'ho/k"),
    ({"params": {"hf": {"bias": np.ones(UNITS)}}}, "have the name 'hf/bias'"),
]


@pytest.mark.parametrize(("changes", "reason"), CHANGES)
def test_entries_that_do_not_fit_are_named(changes, reason):
    weights = {n: w for n, w in (lstm_weights() | changes).items() if w is not None}
    layers = {"": built(keras.layers.LSTM(UNITS)), "other": built(keras.layers.Dense(2))}
    weights |= {"other/kernel": np.ones((FEATURES, 2)), "other/bias": np.ones(2)}
    assert reason in refusal(load_flax_weights, layers, weights)


def test_the_prefix_of_a_module_is_suggested():
    weights = {f"encoder/{name}": weight for name, weight in lstm_weights().items()}
    message = refusal(load_flax_weights, built(keras.layers.LSTM(UNITS)), weights)
    assert "Pass prefix='encoder/'" in message


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (keras_norm.LayerNormLSTM(UNITS), "norms in kernel_norm, recurrent_norm, state_norm. Load"),
        (keras.layers.GRU(UNITS, reset_after=False), "with reset_after=False"),
        (keras.layers.LSTM(UNITS, use_bias=False), "with use_bias=False"),
        (
            keras.layers.Bidirectional(keras.layers.LSTM(UNITS), merge_mode="mul"),
            "with merge_mode='mul', and a bidirectional module concatenates",
        ),
        (keras.layers.LayerNormalization(), "LayerNorm has epsilon=1e-06. Received Lay"),
        (keras.layers.BatchNormalization(), "BatchNorm has epsilon=1e-05. Received Bat"),
        (keras_norm.LayerNormalization(epsilon=1e-6, ddof=1), "with ddof=1"),
        (keras_norm.BatchNormalization(epsilon=1e-5, debias=True), "with debias=True"),
        (keras.layers.LayerNormalization(1, 1e-6), "LayerNorm normalizes the last axes. Re"),
        (keras_norm.RMSNormalization(axis=1), "with axis=1. Create it with axis=-1."),
    ],
)
def test_a_layer_with_other_equations_is_refused(layer, reason):
    weights = lstm_weights() if hasattr(layer, "return_sequences") else VECTORS
    assert reason in refusal(load_flax_weights, built(layer), weights)


def test_the_epsilon_of_a_module_is_an_argument():
    layer = built(keras.layers.LayerNormalization(epsilon=1e-3))
    load_flax_weights(layer, {"scale": np.full(3, 2.0), "bias": np.full(3, 5.0)}, epsilon=1e-3)
    np.testing.assert_array_equal(layer.beta, np.full(3, 5.0))
    rms = built(keras_norm.RMSNormalization())
    message = refusal(load_flax_weights, rms, VECTORS, epsilon=1e-3)
    assert "RMSNorm has epsilon=0.001. Received RMS" in message


def test_batch_norm_needs_both_collections():
    layer = built(keras.layers.BatchNormalization(epsilon=1e-5))
    params = {"params": {"scale": np.ones(3), "bias": np.ones(3)}}
    message = refusal(load_flax_weights, layer, params)
    assert "{'params': ..., 'batch_stats': ...}" in message


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (keras.layers.RNN(CustomCell(UNITS, name="mine")), "mine' is of a custom"),
        (keras.layers.Conv1D(UNITS, 3, name="conv"), "the weights of Conv1D 'conv'. Pass LSTM"),
        (keras.layers.RNN([keras.layers.LSTMCell(UNITS)], name="rnn"), "weights of RNN 'rnn'"),
    ],
    ids=["custom cell", "unknown layer", "stacked cells"],
)
def test_an_unknown_layer_is_refused(layer, reason):
    assert reason in refusal(load_flax_weights, built(layer), lstm_weights(), error=TypeError)


def test_a_list_of_layers_is_refused():
    with pytest.raises(TypeError, match=r"dict from names of modules to layers.*Received: list"):
        load_flax_weights([built(keras.layers.LSTM(UNITS))], lstm_weights())
