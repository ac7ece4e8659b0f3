"""Files of Keras 2 are read without the classes of the model, and other files are refused.

`record_addons.py` recorded the files of tests/data/addons.
"""

import functools
import pickle

import h5py
import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_addons_weights
from tests.compat.addons_models import (
    FEATURES,
    FOLDER,
    UNITS,
    addons_layer,
    addons_weights,
    create_model,
    recorded_outputs,
)
from tests.compat.recorded import refusal

refused = functools.partial(refusal, load_addons_weights)
FILES = ["model.npz", "model.h5", "weights.h5", "checkpoint", "checkpoint/weights", "saved_model"]


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
def test_a_whole_model_computes_the_recorded_outputs_of_addons(name, files):
    model = create_model()
    load_addons_weights(model, files[name])
    np.testing.assert_allclose(
        model(recorded_outputs()["inputs"]), recorded_outputs()["model"], rtol=0, atol=1e-6
    )


def swapped_model():
    """Create a model whose first two layers are in another order than in the recorded model."""
    recurrent = keras_norm.NormLSTM(
        UNITS, keras_norm.LayerNormalization(), normalize_carry=True, return_sequences=True
    )
    dense = keras.layers.TimeDistributed(keras.layers.Dense(UNITS))
    return keras.Sequential([keras.Input((None, FEATURES)), recurrent, dense])


@pytest.mark.parametrize("name", ["model.h5", "checkpoint", "saved_model"])
def test_a_file_of_another_model_names_the_first_difference(name):
    message = refused(swapped_model(), FOLDER / name)
    assert "Weight 0 is the first that differs: old dense/kernel (3, 4), new" in message


def test_weights_of_other_names_are_refused(tmp_path):
    names = [f"cell/{name}:0" for name in ("kernel", "recurrent_kernel", "bias")]
    names += [f"cell/{slot}/{w}:0" for slot in ("kernel_norm", "x", "y") for w in ("beta", "gamma")]
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = ["rnn"]
        file.create_group("rnn").attrs["weight_names"] = names
        for name, weight in zip(names, addons_weights(), strict=True):
            file["rnn"][name] = weight
    message = refused(addons_layer(), tmp_path / "old.h5")
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
    assert reason in refused(addons_layer(), tmp_path / name)


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
        load_addons_weights, addons_layer(), tmp_path / "old.h5"
    )


def test_a_checkpoint_of_no_keras_model_is_refused(tmp_path):
    # tf.compat.v1 writes no object graph, as the programs of TensorFlow 1.
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("kernel", initializer=tf.ones(2))
        session.run(variable.initializer)
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "old"))
    assert "was not written by a Keras model" in refusal(
        load_addons_weights, addons_layer(), tmp_path / "old"
    )


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file.*old\.h5"):
        load_addons_weights(addons_layer(), tmp_path / "old.h5")
