"""Loading archives of Kiros' layer-norm, the code of the paper "Layer Normalization"."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import BiasedLayerNormalization, load_kiros_weights
from tests import oracles
from tests.compat.recorded import refusal

BATCH, TIME, FEATURES, UNITS = 2, 5, 6, 4
EPSILON = 1e-5
LSTM_SHAPES = {"W": (FEATURES, 4 * UNITS), "U": (UNITS, 4 * UNITS), "b": (4 * UNITS,)}
GRU_SHAPES = {
    **{"W": (FEATURES, 2 * UNITS), "U": (UNITS, 2 * UNITS), "b": (2 * UNITS,)},
    **{"Wx": (FEATURES, UNITS), "Ux": (UNITS, UNITS), "bx": (UNITS,)},
}
LSTM_NORMS = {f"{letter}{k}": (n * UNITS,) for k, n in ((1, 4), (2, 4), (3, 1)) for letter in "bs"}
GRU_NORMS = {
    f"{letter}{k}": (n * UNITS,) for k, n in ((1, 2), (2, 1), (3, 2), (4, 1)) for letter in "bs"
}
SHAPES = {
    "lnlstm": LSTM_SHAPES | LSTM_NORMS,
    "lngru": GRU_SHAPES | GRU_NORMS,
    "lstm": LSTM_SHAPES,
    "gru": GRU_SHAPES,
}
ONE_LAYER = [*SHAPES]


def draw_weights(kind, prefix="encoder_"):
    rng = np.random.default_rng(0)
    return {f"{prefix}{name}": rng.normal(size=shape) for name, shape in SHAPES[kind].items()}


def create_layer(kind, **options):
    norm, biased = (
        cls(epsilon=EPSILON) for cls in (keras_norm.LayerNormalization, BiasedLayerNormalization)
    )
    options = {"return_sequences": True, "dtype": "float64", **options}
    layer = {
        "lnlstm": lambda: keras_norm.NormLSTM(
            UNITS,
            {"kernel_norm": biased, "recurrent_norm": norm, "state_norm": norm},
            **options,
        ),
        "lngru": lambda: keras_norm.NormGRU(
            UNITS,
            {
                **{"kernel_norm": biased, "kernel_candidate_norm": biased},
                **{"recurrent_norm": norm, "recurrent_candidate_norm": norm},
            },
            **options,
        ),
        "lstm": lambda: keras.layers.LSTM(UNITS, **options),
        "gru": lambda: keras.layers.GRU(UNITS, **options),
    }[kind]()
    layer.build((None, TIME, FEATURES))
    return layer


def draw_inputs():
    return np.random.default_rng(1).normal(size=(BATCH, TIME, FEATURES))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def compute_outputs(kind, weights, x, mask=None):
    """Compute the layers of layers.py in ryankiros/layer-norm, with the names of that file."""
    p = {name.removeprefix("encoder_"): weight for name, weight in weights.items()}
    mask = np.ones(x.shape[:2]) if mask is None else mask

    def ln(x, k):
        if f"s{k}" not in p:
            return x
        return oracles.layer_norm(x, p[f"s{k}"], p[f"b{k}"], axes=(-1,), epsilon=EPSILON)

    def lstm_step(m, below, h_, c_):
        preact = ln(h_ @ p["U"], 2) + ln(below @ p["W"] + p["b"], 1) + p["b"]
        i, f, o, c = np.split(preact, 4, axis=-1)
        c = sigmoid(f) * c_ + sigmoid(i) * np.tanh(c)
        c = m * c + (1 - m) * c_
        h = sigmoid(o) * np.tanh(ln(c, 3))
        return m * h + (1 - m) * h_, c

    def gru_step(m, below, h_, c_):
        preact = ln(h_ @ p["U"], 3) + ln(below @ p["W"] + p["b"], 1)
        r, u = np.split(sigmoid(preact), 2, axis=-1)
        preactx = ln(h_ @ p["Ux"], 4) * r + ln(below @ p["Wx"] + p["bx"], 2)
        h = u * h_ + (1 - u) * np.tanh(preactx)
        return m * h + (1 - m) * h_, c_

    h = c = np.zeros((len(x), UNITS))
    outputs = []
    for t in range(x.shape[1]):
        step = lstm_step if kind.endswith("lstm") else gru_step
        h, c = step(mask[:, t, None], x[:, t], h, c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("kind", ONE_LAYER)
def test_the_outputs_are_those_of_the_papers_code(kind):
    layer, weights, x = create_layer(kind), draw_weights(kind), draw_inputs()
    load_kiros_weights(layer.cell if kind == "gru" else layer, weights, "encoder_")
    np.testing.assert_allclose(layer(x), compute_outputs(kind, weights, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lnlstm", "lngru"])
def test_masked_timesteps_keep_the_state(kind):
    layer, weights, x = create_layer(kind), draw_weights(kind), draw_inputs()
    load_kiros_weights(layer, weights, "encoder_")
    mask = np.arange(TIME) < np.array([[3], [5]])
    expected = compute_outputs(kind, weights, x, mask)
    actual = np.asarray(layer(x, mask=mask))
    np.testing.assert_allclose(actual[mask], expected[mask], rtol=0, atol=1e-12)
    trained = np.asarray(layer(x, mask=mask, training=True))
    np.testing.assert_allclose(trained[mask], expected[mask], rtol=0, atol=1e-10)


def test_a_gru_without_a_bias_of_its_own_loads_too():
    layer, weights, x = create_layer("lngru", use_bias=False), draw_weights("lngru"), draw_inputs()
    load_kiros_weights(layer, weights, "encoder_")
    expected = compute_outputs("lngru", weights, x)
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-12)


def test_an_archive_with_several_layers_is_read_by_prefix(tmp_path):
    weights, others = draw_weights("lngru"), draw_weights("gru", "encoder_r_")
    np.savez(tmp_path / "skip.npz", history_errs=[], Wemb=np.ones((9, 6)), **weights, **others)
    for prefix, kind in (("encoder_", "lngru"), ("encoder_r_", "gru")):
        layer, x = create_layer(kind), draw_inputs()
        load_kiros_weights(layer, tmp_path / "skip.npz", prefix)
        given = weights if kind == "lngru" else draw_weights("gru")
        expected = compute_outputs(kind, given, x)
        np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lnlstm", "lngru"])
def test_a_saved_model_keeps_the_biased_norms(kind, tmp_path):
    layer = create_layer(kind, dtype="float32")
    load_kiros_weights(layer, draw_weights(kind), "encoder_")
    model = keras.Sequential([keras.Input((TIME, FEATURES)), layer])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = draw_inputs()
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def refused(layer, weights, **options):
    return refusal(load_kiros_weights, layer, weights, "encoder_", **options)


@pytest.mark.parametrize("kind", ["lnlstm", "lngru"])
def test_a_norm_without_the_bias_inside_is_refused(kind):
    cls = keras_norm.LayerNormLSTM if kind == "lnlstm" else keras_norm.LayerNormGRU
    layer = cls(UNITS, epsilon=EPSILON)
    layer.build((None, TIME, FEATURES))
    message = refused(layer, draw_weights(kind))
    assert "with LayerNormalization in kernel_norm" in message
    assert "'kernel_norm': biased" in message


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"normalize_carry": True}, "normalize_carry=True"),
        ({"use_bias": False}, "use_bias=False"),
    ],
)
def test_an_lstm_with_another_equation_is_refused(options, reason):
    assert reason in refused(create_layer("lnlstm", **options), draw_weights("lnlstm"))


def test_norms_in_the_weights_alone_are_refused():
    message = refused(create_layer("lstm"), draw_weights("lnlstm"))
    assert "/lstm_cell' has none. Create" in message


def test_norms_in_the_layer_alone_are_refused():
    assert "have no gains s1" in refused(create_layer("lngru"), draw_weights("gru"))


def test_a_learned_initial_state_is_refused_by_name():
    weights = draw_weights("lnlstm") | {"encoder_h0": np.ones(UNITS)}
    message = refused(create_layer("lnlstm"), weights)
    assert "'encoder_h0' is a learned initial state" in message
    assert "initial_state=..." in message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"encoder_s3": None}, "Missing entries: encoder_s3"),
        ({"encoder_x": np.ones(3)}, "Entries without a layer: encoder_x"),
        ({"encoder_W": np.ones((4 * UNITS, FEATURES))}, "transposed"),
    ],
    ids=["missing", "additional", "transposed"],
)
def test_arrays_that_do_not_fit_are_named(changes, reason):
    weights = {n: w for n, w in (draw_weights("lnlstm") | changes).items() if w is not None}
    assert reason in refused(create_layer("lnlstm"), weights)


@pytest.mark.parametrize(
    "layer", [keras.layers.Bidirectional(keras.layers.LSTM(3)), keras.layers.Dense(3)]
)
def test_other_layers_are_refused(layer):
    layer.build((None, TIME, FEATURES))
    message = refused(layer, draw_weights("lstm"), error=TypeError)
    assert "layer must be a NormLSTM, a NormGRU" in message
