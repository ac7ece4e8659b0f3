"""Arrays, files and datasets are read in parts, each sample once."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.checks import data_reader as data_module
from keras_norm.export.checks.data_reader import Data, read_arrays
from keras_norm.export.compare.labels import read_labels
from keras_norm.export.input_names import TensorSpec

SPECS = {"x": TensorSpec("x", (None, None, 3), "float32")}
TWO = {**SPECS, "keep": TensorSpec("keep", (None, None), "bool")}
X = np.random.default_rng(0).normal(size=(10, 4, 3)).astype("float32")
Y = np.arange(10)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, k):
        return X[4 * k : 4 * k + 4], Y[4 * k : 4 * k + 4]


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, k):
        return X


def batched(size=4):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(size)


@pytest.fixture
def files(tmp_path):
    bounds = [(0, 6), (6, 10)]
    for name, array in (("x", X), ("y", Y)):
        for k, (start, end) in enumerate(bounds):
            np.savez(tmp_path / f"{name}{k}.npz", **{name: array[start:end]})
    return [[tmp_path / f"{name}{k}.npz" for k in range(2)] for name in "xy"]


def joined(data):
    parts = list(data)
    return (
        np.concatenate([part.samples.arrays["x"] for part in parts]),
        np.concatenate([y for part in parts for y in part.labels.values()]),
    )


@pytest.mark.parametrize(
    "data",
    [(X, Y), (batched(), None), (Batches(), None), ({"x": X}, Y)],
    ids=["arrays", "tf.data.Dataset", "PyDataset", "dict"],
)
def test_every_iteration_yields_all_samples_once(data):
    parts = Data(SPECS, *data)
    for _ in range(2):
        x, y = joined(parts)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, Y)


def test_a_batch_of_a_dataset_is_a_part_and_large_arrays_are_split_into_equal_parts(monkeypatch):
    monkeypatch.setattr(data_module, "PART", 4)
    for data, counts, starts in (
        ((batched(),), [4, 4, 2], [0, 4, 8]),
        ((X, Y), [3, 3, 4], [0, 3, 6]),
    ):
        parts = list(Data(SPECS, *data))
        assert [part.samples.count for part in parts] == counts
        assert [part.samples.first for part in parts] == starts
        np.testing.assert_array_equal(parts[1].labels[0], Y[starts[1] : starts[2]])


def test_samples_are_counted_in_their_file(files):
    parts = list(Data(SPECS, *files))
    assert [(part.source, part.samples.first) for part in parts] == [("x0.npz", 0), ("x1.npz", 0)]
    np.testing.assert_array_equal(parts[1].labels["y"], Y[6:])
    (part,) = Data(SPECS, files[0][0])
    assert (part.source, part.samples.count) == ("", 6)


def test_files_with_equal_names_are_named_by_their_paths(tmp_path):
    paths = [tmp_path / folder / "rows.npz" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        np.savez(path, x=X)
    assert [part.source for part in Data(SPECS, paths)] == list(map(str, paths))


@pytest.mark.parametrize("x", [{"x": X, "keep": X[..., 0] > 0}, (X, X[..., 0] > 0)])
def test_batches_of_several_inputs_are_dicts_or_tuples(x):
    dataset = tf.data.Dataset.from_tensor_slices((x, Y, np.ones(10))).batch(5)
    first, _ = Data(TWO, dataset)
    np.testing.assert_array_equal(first.samples.arrays["keep"], X[:5, :, 0] > 0)


def test_labels_of_several_outputs_may_be_a_tuple_or_a_dict():
    numbers, flags = Y.astype(float), Y[:, None] > 0
    dataset = tf.data.Dataset.from_tensor_slices((X, (numbers, flags)))
    named = {"y": numbers, "flag": flags}
    # In batches of two samples, a tuple has as many labels as samples.
    for data, labels in (
        (dataset.batch(5), None),
        (dataset.batch(2), None),
        (X, [numbers, flags]),
        (X, named),
    ):
        part = next(iter(Data(SPECS, data, labels)))
        count = part.samples.count
        outputs = {"y": np.zeros((count, 1)), "flag": np.zeros((count, 1))}
        found = read_labels(part.labels, outputs)
        np.testing.assert_array_equal(found["flag"], flags[:count])
        np.testing.assert_array_equal(found["y"], numbers[:count])


def test_a_list_with_a_row_for_each_sample_has_the_labels_of_one_output():
    (part,) = Data(SPECS, X, np.eye(10).tolist())
    assert part.labels[0].shape == (10, 10)


def test_the_first_samples_have_one_shape():
    assert Data(SPECS, batched(3)).first()[0].count == 10
    ragged = tf.data.Dataset.from_generator(
        lambda: iter([X[:2], X[2:5], X[5:, :2]]),
        output_signature=tf.TensorSpec((None, None, 3), "float32"),
    )
    assert Data(SPECS, ragged).first()[0].count == 5


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (batched(), Y, "are the y of its batches"),
        (batched().repeat(), None, "is infinite"),
        (Endless(), None, "is infinite"),
        (batched().take(0), None, "have no samples"),
        (["a.npz", "b.npz"], "c.npz", "each of the 2 files of data. Received: 1"),
        (["a.npz"], Y, "one file of labels .* Received: ndarray"),
        (X, Y[:3], "one row for each of the 10 samples"),
        (X, "y.npz", "labels is the path y.npz, but the data are arrays"),
    ],
)
def test_data_that_cannot_be_read_raise(data, labels, message):
    with pytest.raises(ValueError, match=message):
        Data(SPECS, data, labels).first()


def test_a_npy_file_is_the_data_of_one_input_and_the_labels_of_one_output(tmp_path):
    for name, array in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", array)
    x, y = joined(Data(SPECS, tmp_path / "x.npy", tmp_path / "y.npy"))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def test_the_error_for_a_missing_or_wrong_file_names_it(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("rows")
    for specs, name, error, message in (
        (TWO, "x.npy", ValueError, r"has 2 inputs: give arrays by name \('x', 'keep'\)"),
        (SPECS, "pickle.npy", ValueError, r"pickle\.npy cannot be read"),
        (SPECS, "nowhere.npz", FileNotFoundError, r"nowhere\.npz: no such file"),
        (SPECS, "text.npz", ValueError, r"is not an \.npz or \.npy file"),
    ):
        with pytest.raises(error, match=message):
            Data(specs, tmp_path / name).first()


def test_a_file_with_a_changed_byte_is_read_or_raises_a_value_error(tmp_path):
    file = tmp_path / "x.npz"
    np.savez_compressed(file, x=X)
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 200):
        broken = bytearray(whole)
        broken[place] ^= int(rng.integers(1, 256))
        file.write_bytes(bytes(broken))
        with contextlib.suppress(ValueError):
            read_arrays(file)


@pytest.mark.parametrize(
    "data",
    [
        ["a b", "c"],
        ("a b", "c"),
        np.array(["a b", "c"]),
        {"x": np.array([b"a b", b"c"], object)},
        tf.data.Dataset.from_tensor_slices(["a b", "c"]).batch(2),
    ],
    ids=["list", "tuple", "array", "bytes", "dataset"],
)
def test_texts_are_read_in_every_form_and_from_files(data, tmp_path):
    file = tmp_path / "texts.npz"
    np.savez(file, x=np.array(["a b", "c"]))
    for given in (data, file, str(file), [file]):
        (part,) = Data({"x": TensorSpec("x", (None,), "string")}, given)
        assert part.samples.arrays["x"].tolist() == [b"a b", b"c"]
