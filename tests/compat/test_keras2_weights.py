"""Models of TensorFlow Addons: files of Keras 2 are read without the classes of the model."""

import functools
import pickle

import h5py
import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_addons_weights
from tests.compat.layers import addons_lstm
from tests.compat.recorded import ADDONS, UNITS, built, check_outputs, read, refusal

refused = functools.partial(refusal, load_addons_weights)
FEATURES = 3
FILES = ["model.npz", "model.h5", "weights.h5", "checkpoint", "checkpoint/weights", "saved_model"]


@pytest.fixture
def files(tmp_path):
    """The recorded files, and a file of `save_weights`, which has no model around the weights."""
    with h5py.File(ADDONS / "model.h5") as model, h5py.File(tmp_path / "weights.h5", "w") as file:
        for name, group in model["model_weights"].items():
            model["model_weights"].copy(group, file, name)
        for name, value in model["model_weights"].attrs.items():
            file.attrs[name] = value
    return {name: ADDONS / name for name in FILES} | {"weights.h5": tmp_path / "weights.h5"}


def create_model():
    """Create the recorded model, with NormLSTM in place of RNN(LayerNormLSTMCell)."""
    options = {"norm": keras_norm.LayerNormalization(epsilon=1e-3), "normalize_carry": True}
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


@pytest.fixture(scope="module")
def model():
    return create_model()


@pytest.mark.parametrize("name", FILES)
def test_a_whole_model_computes_the_recorded_outputs_of_addons(name, files, model):
    for weight in model.weights:
        weight.assign(np.full(weight.shape, np.nan))
    load_addons_weights(model, files[name])
    check_outputs(read("addons", "model"), [model], 1e-6)


def test_the_count_of_updates_of_a_batch_norm_is_not_among_the_old_weights():
    norm = keras_norm.BatchNormalization(debias=True)
    model = keras.Sequential([keras.Input((5, FEATURES)), addons_lstm(), norm])
    statistics = [np.full(UNITS, float(k)) for k in range(4)]
    load_addons_weights(model, [*read("addons", "rnn").weights, *statistics])
    np.testing.assert_array_equal(norm.moving_variance, np.full(UNITS, 3.0))


@pytest.mark.parametrize("name", ["model.h5", "checkpoint", "saved_model"])
def test_a_file_of_another_model_names_the_first_difference(name):
    dense = keras.layers.TimeDistributed(keras.layers.Dense(UNITS))
    swapped = keras.Sequential([keras.Input((None, FEATURES)), addons_lstm(), dense])
    message = refused(swapped, ADDONS / name)
    assert "Weight 0 is the first that differs: old dense/kernel (3, 4), new" in message


def test_weights_of_other_names_are_refused(tmp_path):
    names = [f"cell/{name}:0" for name in ("kernel", "recurrent_kernel", "bias")]
    names += [f"cell/{slot}/{w}:0" for slot in ("kernel_norm", "x", "y") for w in ("beta", "gamma")]
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = ["rnn"]
        file.create_group("rnn").attrs["weight_names"] = names
        for name, weight in zip(names, read("addons", "rnn").weights, strict=True):
            file["rnn"][name] = weight
    message = refused(built(addons_lstm(), FEATURES), tmp_path / "old.h5")
    assert "Weight 3 is the first that differs: old cell/kernel_norm/beta (16,), new" in message


def write_text(path):
    path.write_text("no weights")


def write_pickle(path):
    path.write_bytes(pickle.dumps(read("addons", "rnn").weights))


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
    assert reason in refused(built(addons_lstm(), FEATURES), tmp_path / name)


def link_to_another_file(group, other):
    group["kernel"] = h5py.ExternalLink(str(other), "/kernel")


def store_in_another_file(group, other):
    group.create_dataset("kernel", (3,), "float64", external=[(str(other), 0, 24)])


def map_to_another_file(group, other):
    layout = h5py.VirtualLayout((3,), "float64")
    layout[:] = h5py.VirtualSource(str(other), "kernel", (3,))
    group.create_virtual_dataset("kernel", layout)


@pytest.mark.parametrize(
    "store", [link_to_another_file, store_in_another_file, map_to_another_file]
)
def test_a_weight_in_another_file_is_not_read(store, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["kernel"] = np.ones(3)
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = ["rnn"]
        group = file.create_group("rnn")
        group.attrs["weight_names"] = ["kernel"]
        store(group, tmp_path / "other.h5")
    assert "is stored in another file" in refusal(
        load_addons_weights, built(addons_lstm(), FEATURES), tmp_path / "old.h5"
    )


def test_a_checkpoint_of_no_keras_model_is_refused(tmp_path):
    # tf.compat.v1 writes no object graph, as the programs of TensorFlow 1.
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("kernel", initializer=tf.ones(2))
        session.run(variable.initializer)
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "old"))
    assert "was not written by a Keras model" in refusal(
        load_addons_weights, built(addons_lstm(), FEATURES), tmp_path / "old"
    )


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file.*old\.h5"):
        load_addons_weights(built(addons_lstm(), FEATURES), tmp_path / "old.h5")
