"""Loading weights of models with TensorFlow Addons' LayerNormLSTMCell.

`record_addons.py` recorded the files of tests/data/addons with the cell of TensorFlow Addons.
"""

import pathlib
import pickle

import h5py
import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_addons_weights
from tests import oracles

FEATURES, UNITS = 3, 4
FOLDER = pathlib.Path(__file__).parents[1] / "data" / "addons"
FILES = ["model.npz", "model.h5", "weights.h5", "checkpoint", "checkpoint/weights", "saved_model"]


def addons_layer(epsilon=1e-3, return_sequences=True, **kwargs):
    layer = keras_norm.NormLSTM(
        UNITS,
        norm=keras_norm.LayerNormalization(epsilon=epsilon),
        normalize_carry=True,
        return_sequences=return_sequences,
        dtype="float64",
        **kwargs,
    )
    layer.build((None, 5, FEATURES))
    return layer


def addons_weights(seed=0):
    """Draw random weights in the order of tfa.rnn.LayerNormLSTMCell.get_weights()."""
    rng = np.random.default_rng(seed)
    shapes = [(FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,)]
    shapes += [(4 * UNITS,)] * 4 + [(UNITS,)] * 2
    return [rng.normal(size=shape) for shape in shapes]


def addons_outputs(weights, x, epsilon=1e-3):
    """Compute the outputs of tfa.rnn.LayerNormLSTMCell with NumPy."""
    kernel, recurrent_kernel, bias, *affine = weights

    def norm(z, gamma, beta):
        return oracles.layer_norm(z, gamma, beta, axes=(-1,), epsilon=epsilon)

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    h = c = np.zeros((len(x), UNITS))
    outputs = []
    for x_t in np.swapaxes(x, 0, 1):
        z = norm(x_t @ kernel, *affine[:2]) + norm(h @ recurrent_kernel, *affine[2:4]) + bias
        i, f, g, o = np.split(z, 4, axis=-1)
        c = norm(sigmoid(f) * c + sigmoid(i) * np.tanh(g), *affine[4:])
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("target", ["layer", "cell"])
def test_loaded_weights_give_the_outputs_of_the_addons_cell(target):
    layer, weights = addons_layer(), addons_weights()
    load_addons_weights(layer if target == "layer" else layer.cell, weights)
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES))
    np.testing.assert_allclose(layer(x), addons_outputs(weights, x), rtol=0, atol=1e-12)


def test_epsilon_may_differ_from_the_default_of_addons():
    layer, weights = addons_layer(epsilon=0.1), addons_weights()
    load_addons_weights(layer, weights, epsilon=0.1)
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES))
    np.testing.assert_allclose(layer(x), addons_outputs(weights, x, 0.1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"epsilon": 1e-5}, "epsilon=1e-05"),
        ({"epsilon_placement": "outside"}, "epsilon_placement='outside'"),
        ({"ddof": 1}, "ddof=1"),
        ({"center": False}, "center=False"),
    ],
    ids=str,
)
def test_norms_with_other_equations_are_refused(options, received):
    norms = {slot: keras_norm.LayerNormalization() for slot in ("kernel_norm", "recurrent_norm")}
    norms["state_norm"] = keras_norm.LayerNormalization(**options)
    layer = keras_norm.NormLSTM(UNITS, norms, normalize_carry=True)
    layer.build((None, 5, FEATURES))
    reason = rf"/state_norm' with {received}.*LayerNormalization\(epsilon=0.001\).*norm_epsilon"
    with pytest.raises(ValueError, match=reason):
        load_addons_weights(layer, addons_weights())


def test_the_cell_may_have_no_bias():
    layer, weights = addons_layer(use_bias=False), addons_weights()
    del weights[2]
    load_addons_weights(layer, weights)
    np.testing.assert_array_equal(layer.cell.kernel_norm.gamma, weights[2])


def recorded_arrays(name):
    """Return the arrays of get_weights() of a recorded model."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        return [file[f"arr_{k}"] for k in range(len(file.files))]


@pytest.fixture(scope="module")
def recorded():
    with np.load(FOLDER / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.mark.parametrize(
    ("name", "options", "epsilon"),
    [
        ("rnn", {}, 1e-3),
        ("without_bias", {"use_bias": False, "return_sequences": False}, 1e-3),
        ("epsilon", {"epsilon": 0.1, "return_sequences": False}, 0.1),
        ("backwards", {"go_backwards": True, "return_sequences": False}, 1e-3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_layer_computes_the_recorded_outputs_of_addons(name, options, epsilon, recorded):
    layer = addons_layer(**options)
    load_addons_weights(layer, recorded_arrays(name), epsilon)
    np.testing.assert_allclose(layer(recorded["inputs"]), recorded[name], rtol=0, atol=1e-6)


def create_model():
    """Create the recorded model, with NormLSTM in place of RNN(LayerNormLSTMCell)."""
    norm = keras_norm.LayerNormalization(epsilon=1e-3)
    options = {"norm": norm, "normalize_carry": True}
    cells = [keras_norm.NormLSTMCell(n, **options) for n in (UNITS, UNITS + 1)]
    recurrent = keras_norm.NormLSTM(UNITS, return_sequences=True, **options)
    nested = keras.Sequential([keras.layers.Dense(UNITS), keras_norm.BatchNormalization()])
    return keras.Sequential(
        [
            keras.Input((None, FEATURES)),
            keras.layers.TimeDistributed(nested),
            keras.layers.Bidirectional(recurrent),
            keras_norm.LayerNormalization(),
            keras.layers.RNN(cells, return_sequences=True),
            keras.layers.BatchNormalization(),
            keras.layers.Bidirectional(keras.layers.LSTM(UNITS)),
            keras.layers.Dense(2),
        ]
    )


@pytest.fixture
def files(tmp_path):
    """The recorded files, and a file of `save_weights`, which has no model around the weights."""
    with h5py.File(FOLDER / "model.h5") as model, h5py.File(tmp_path / "weights.h5", "w") as file:
        for name, group in model["model_weights"].items():
            model["model_weights"].copy(group, file, name)
        for name, value in model["model_weights"].attrs.items():
            file.attrs[name] = value
    return {name: FOLDER / name for name in FILES} | {"weights.h5": tmp_path / "weights.h5"}


@pytest.mark.parametrize("name", FILES)
def test_a_whole_model_computes_the_recorded_outputs_of_addons(name, files, recorded):
    model = create_model()
    load_addons_weights(model, files[name])
    np.testing.assert_allclose(model(recorded["inputs"]), recorded["model"], rtol=0, atol=1e-6)


def test_the_list_of_a_whole_model_is_loaded(recorded):
    model = create_model()
    load_addons_weights(model, recorded_arrays("model"))
    np.testing.assert_allclose(model(recorded["inputs"]), recorded["model"], rtol=0, atol=1e-6)


def test_the_count_of_updates_of_a_batch_norm_is_not_among_the_old_weights():
    norm = keras_norm.BatchNormalization(debias=True)
    model = keras.Sequential([keras.Input((5, FEATURES)), addons_layer(), norm])
    weights = [*addons_weights(), *(np.full(UNITS, float(k)) for k in range(4))]
    load_addons_weights(model, weights)
    np.testing.assert_array_equal(norm.moving_variance, np.full(UNITS, 3.0))


def refusal(layer, weights, error=ValueError, **options):
    """Return the message, and assert that it has one line and that the layer is unchanged."""
    before = layer.get_weights()
    with pytest.raises(error) as refusal:
        load_addons_weights(layer, weights, **options)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def built(layer):
    layer.build((None, 5, FEATURES))
    return layer


@pytest.mark.parametrize(
    ("layer", "received"),
    [
        (keras_norm.NormGRU(UNITS), "GRUCell"),
        (keras.layers.LSTM(UNITS, name="lstm"), "LSTM 'lstm'"),
        (keras.layers.Dense(UNITS, name="head"), "Dense 'head'"),
        (keras.layers.Bidirectional(keras_norm.LayerNormGRU(UNITS)), "NormGRUCell"),
    ],
)
def test_a_layer_without_an_lstm_of_keras_norm_is_refused(layer, received):
    message = refusal(built(layer), addons_weights(), TypeError)
    assert "must contain a NormLSTM or a NormLSTMCell" in message
    assert received in message


class CustomCell(keras_norm.NormLSTMCell):
    """A user's cell."""


def test_a_custom_cell_is_refused():
    norm = keras_norm.LayerNormalization()
    cell = CustomCell(UNITS, norm, normalize_carry=True, name="mine")
    message = refusal(built(keras.layers.RNN(cell)), addons_weights(), TypeError)
    assert "mine' is of a custom class" in message


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.LayerNormLSTM(UNITS),
        keras_norm.LayerNormLSTM(UNITS, norm_form="joint"),
        keras_norm.NormLSTM(UNITS, norm=keras_norm.RMSNormalization(), normalize_carry=True),
        keras_norm.NormLSTM(UNITS, normalize_carry=True),
        keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS)),
    ],
    ids=["carries c", "joint", "another norm", "no norm", "in Bidirectional"],
)
def test_a_layer_with_other_equations_is_refused(layer):
    assert "Create the layer as NormLSTM" in refusal(built(layer), addons_weights())


def test_a_layer_that_is_not_built_is_refused():
    layer = keras_norm.LayerNormLSTM(UNITS, normalize_carry=True)
    assert "Build it" in refusal(layer, addons_weights(), epsilon=1e-5)


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (lambda w: w[:3], "has 3 weights, and NormLSTM 'old' has 9. Weight 3 is the first that d"),
        (lambda w: w[:3], "old none, new "),
        (lambda w: [*w, np.ones(2)], "Weight 9 is the first that differs: old (2,), new none."),
    ],
)
def test_the_wrong_number_of_weights_is_refused(select, reason):
    assert reason in refusal(addons_layer(name="old"), select(addons_weights()))


@pytest.mark.parametrize(
    ("k", "value", "reason"),
    [
        (8, np.zeros(UNITS + 1), r"'weights[8]' must have the shape (4,). Received shape (5,)."),
        (8, np.zeros(UNITS + 1), r"state_norm/beta' the sizes that it has in TensorFlow Addons."),
        (0, np.zeros((4 * UNITS, FEATURES)), "The entry is transposed"),
    ],
    ids=["shape", "variable", "transposed"],
)
def test_weights_of_another_shape_are_refused(k, value, reason):
    weights = addons_weights()
    weights[k] = value
    assert reason in refusal(addons_layer(), weights)


def swapped_model():
    """Create a model whose first two layers are in another order than in the recorded model."""
    recurrent = keras_norm.NormLSTM(
        UNITS, keras_norm.LayerNormalization(), normalize_carry=True, return_sequences=True
    )
    dense = keras.layers.TimeDistributed(keras.layers.Dense(UNITS))
    return keras.Sequential([keras.Input((None, FEATURES)), recurrent, dense])


@pytest.mark.parametrize("name", ["model.h5", "checkpoint", "saved_model"])
def test_a_file_of_another_model_names_the_first_difference(name):
    message = refusal(swapped_model(), FOLDER / name)
    assert "Weight 0 is the first that differs: old dense/kernel (3, 4), new" in message


def test_weights_of_other_names_are_refused(tmp_path):
    names = [f"cell/{name}:0" for name in ("kernel", "recurrent_kernel", "bias")]
    names += [f"cell/{slot}/{w}:0" for slot in ("kernel_norm", "x", "y") for w in ("beta", "gamma")]
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = ["rnn"]
        file.create_group("rnn").attrs["weight_names"] = names
        for name, weight in zip(names, addons_weights(), strict=True):
            file["rnn"][name] = weight
    message = refusal(addons_layer(), tmp_path / "old.h5")
    assert "Weight 3 is the first that differs: old cell/kernel_norm/beta (16,), new" in message


def write_text(path):
    path.write_text("no weights")


def write_pickle(path):
    path.write_bytes(pickle.dumps(addons_weights()))


def write_damaged_checkpoint(path):
    path.with_suffix(".index").write_text("no checkpoint")


def write_names(path):
    np.savez(path, kernel=np.ones(3))


def write_layers(path):
    with h5py.File(path, "w") as file:
        file.create_group("layers/dense/vars")


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("old.h5", write_text, "is not an HDF5 file, or is damaged"),
        ("old.pkl", write_pickle, "a SavedModel, a TensorFlow checkpoint, an .h5 file or a .npz"),
        ("old.keras", write_text, "Load the model in its old environment, and call numpy.savez"),
        ("old.npz", write_names, "has named arrays"),
        ("old.weights.h5", write_layers, "has no list of the layers"),
        ("old", write_damaged_checkpoint, "is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) and "old" in value else "",
)
def test_a_file_of_another_format_is_refused_and_not_executed(name, write, reason, tmp_path):
    write(tmp_path / name)
    assert reason in refusal(addons_layer(), tmp_path / name)


def test_a_checkpoint_of_no_keras_model_is_refused(tmp_path):
    # tf.compat.v1 writes no object graph, as the programs of TensorFlow 1.
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("kernel", initializer=tf.ones(2))
        session.run(variable.initializer)
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "old"))
    assert "was not written by a Keras model" in refusal(addons_layer(), tmp_path / "old")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file.*old\.h5"):
        load_addons_weights(addons_layer(), tmp_path / "old.h5")
