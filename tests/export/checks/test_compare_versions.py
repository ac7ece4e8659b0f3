"""Comparisons of the predictions of two versions of a model."""

import dataclasses
import io

import keras
import numpy as np
import pytest
import rich.console
import tensorflow as tf

from keras_norm.export import VersionReport, compare_versions
from keras_norm.export.input_names import TensorSpec
from tests.export import models

X = np.random.default_rng(0).normal(size=(50, 4, 3)).astype("float32")
OLD = np.random.default_rng(1).random((50, 3)).astype("float32")
LABELS = OLD.argmax(axis=-1)


def look_up(table, name="y"):
    """Make a version that returns the rows of a table, looked up by their inputs."""
    rows = {x.tobytes(): y for x, y in zip(X, table, strict=True)}
    return lambda inputs: {name: np.stack([rows[x.tobytes()] for x in inputs["x"]])}


def with_inputs(*names):
    """Make a version that has inputs of these names, and returns the first."""

    def file(inputs):
        return {"y": inputs[names[0]]}

    file.inputs = {name: TensorSpec(name, (None, 3), "float32") for name in names}
    return file


@pytest.fixture
def old(monkeypatch):
    """A Keras model whose runner returns the table `OLD`."""
    inputs = keras.Input((None, 3), name="x")
    pooled = keras.layers.GlobalAveragePooling1D()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, name="y")(pooled))
    version = look_up(OLD)
    monkeypatch.setattr(
        "keras_norm.export.model.keras_runner.KerasRunner._run", lambda self, x: version(x)
    )
    return model


def changed(*rows):
    """Return the table `OLD`, with the next class in some rows."""
    table = OLD.copy()
    for row in rows:
        table[row] = np.roll(table[row], 1)
    return table


def get_output_change(report):
    ((_, (output,)),) = report.versions
    return output


def test_the_report_names_the_samples_with_another_class_the_largest_change_first(old):
    labels = LABELS.copy()
    labels[31] = (labels[31] + 1) % 3
    table = changed(7, 31, 40)
    table[12] += 9.0  # the class stays
    report = compare_versions(old, look_up(table), X, labels=labels)
    found = get_output_change(report)
    assert (found.predictions, found.changed, found.fixed, found.broken) == (50, 3, 1, 2)
    assert {change.where for change in found.largest_changes} == {
        (("sample", row),) for row in (7, 31, 40)
    }
    for change in found.largest_changes:
        row = change.where[0][1]
        assert (change.before, change.after) == (LABELS[row], (LABELS[row] + 1) % 3)
        assert change.size == pytest.approx(np.abs(np.roll(OLD[row], 1) - OLD[row]).max())
    sizes = [change.size for change in found.largest_changes]
    assert sizes == sorted(sizes, reverse=True)
    assert found.largest == pytest.approx(9.0)
    assert [metric.value for metric in found.metrics] == pytest.approx([0.98, 0.96])
    assert "1 become right and 2 wrong, accuracy 0.98 -> 0.96" in report.verdict


def test_the_batch_size_does_not_change_the_report(old):
    dataset = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(7)
    table = changed(*range(0, 50, 3))
    parts = get_output_change(compare_versions(old, look_up(table), dataset, batch_size=3))
    whole = get_output_change(
        compare_versions(old, look_up(table), X, labels=LABELS, batch_size=50)
    )
    assert dataclasses.replace(parts, mean=whole.mean) == whole
    assert parts.mean == pytest.approx(whole.mean)
    assert len(parts.largest_changes) == 17


def test_a_report_is_printed_written_and_read(old, tmp_path):
    report = compare_versions(old, look_up(changed(7)), X, labels=LABELS)
    text = io.StringIO()
    report.print(rich.console.Console(file=text, width=80))
    assert "1 of 50 predictions change (2.00%)" in text.getvalue()
    assert "sample 7" in text.getvalue()
    report.to_html(tmp_path / "versions.html")
    page = (tmp_path / "versions.html").read_text()
    assert "sample 7" in page
    assert "://" not in page
    assert VersionReport.from_json(report.to_json()).versions == report.versions


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ([], "The list of new versions is empty"),
        (
            lambda inputs: {"y": OLD[:2]},
            r"the shape \(32, 3\) in the old .*, and the shape \(2, 3\) in",
        ),
        (lambda inputs: {"a": OLD[:1], "b": OLD[:1]}, "and does not exist in"),
        (None, "A version must be a Keras model, .* Received: None"),
        ([3], "A version must be a Keras model, .* Received: 3"),
        (b"new", "A version must be a Keras model, .* Received: b'new'"),
        (keras.Model, "A version must be a Keras model, .* Received: <class 'keras"),
        (with_inputs("a", "b"), r"The old version takes x; file takes a, b\."),
        (lambda inputs: None, "A version must return a dict of arrays .* returned NoneType"),
        (lambda inputs: {"y": OLD[:32].astype(str)}, "of <lambda> has the dtype <U32"),
    ],
)
def test_versions_that_cannot_be_compared_raise(old, new, message):
    with pytest.raises(ValueError, match=message):
        compare_versions(old, new, X)


@pytest.mark.parametrize("batch_size", [0, -1, "a", True])
def test_a_batch_size_below_one_raises(old, batch_size):
    with pytest.raises(ValueError, match="batch_size must be an integer, 1 or larger"):
        compare_versions(old, look_up(OLD), X, batch_size=batch_size)


def test_paths_of_keras_files_are_versions(tmp_path):
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model([a, b], keras.layers.Dense(2, name="y")(a - b))
    model.save(tmp_path / "old.keras")
    model.set_weights([-w for w in model.get_weights()])
    model.save(tmp_path / "new.keras")
    data = [X[:, 0], X[:, 1]]  # the inputs of a Keras file have an order, as those of a model
    paths = [str(tmp_path / "old.keras"), tmp_path / "new.keras"]
    report = compare_versions(tmp_path / "old.keras", [*paths, model], data)
    assert report.old == f"{tmp_path.name}/old.keras"
    names = [name.rpartition("/")[2] for name, _ in report.versions]
    assert names == ["old.keras", "new.keras", model.name]
    assert [output.changed for _, (output,) in report.versions] == [0, 50, 50]


def test_paths_of_files_that_are_no_models_are_named(old, tmp_path):
    (tmp_path / "cut.keras").write_bytes(b"PK")
    unbuilt = keras.Sequential([keras.layers.Dense(2)])
    for version, error, message in (
        (tmp_path / "cut.keras", ValueError, "cannot be loaded: it is not a"),
        (tmp_path / "nowhere.keras", FileNotFoundError, "no such file"),
        (unbuilt, ValueError, "Build the model: let it begin"),
        (look_up(OLD), ValueError, "The old version must be a Keras model or an exported"),
    ):
        with pytest.raises(error, match=message):
            compare_versions(version, old, X)


def test_files_and_models_are_versions(dense_files):
    """A version with one output may use another name for it."""
    first = keras.saving.load_model(dense_files / "model.keras")
    second = models.of(keras.layers.Dense(2, name="output"), (3,), name="input")
    rows = X[:, 0]
    report = compare_versions(dense_files / "model.tflite", [second, first], rows)
    (_, (moved,)), (_, (same,)) = report.versions
    expected = (first.predict(rows, verbose=0), second.predict(rows, verbose=0))
    assert moved.changed == (expected[0].argmax(-1) != expected[1].argmax(-1)).sum() > 0
    assert moved.largest == pytest.approx(np.abs(expected[0] - expected[1]).max(), rel=1e-4)
    assert (same.changed, same.largest) == (0, pytest.approx(0.0, abs=1e-6))


def test_nan_in_a_new_version_is_reported(old):
    table = OLD.copy()
    table[:4] = np.nan
    report = compare_versions(old, look_up(table), X)
    assert "12 of 150 values became NaN or infinite" in report.verdict
    assert get_output_change(report).largest == 0.0


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        ([X[:, 0], X[:, 1]], None, "inputs of an exported file have no order"),
        ({"a": X[:, 0], "b": X[:, 1]}, (LABELS,) * 3, "outputs of an exported file have no order"),
    ],
)
def test_data_of_a_file_must_be_given_by_name(data, labels, message):
    file = with_inputs("a", "b")
    with pytest.raises(ValueError, match=message):
        compare_versions(file, file, data, labels=labels)


def test_a_single_step_file_runs_whole_sequences_if_a_version_is_a_keras_model(step_only):
    model, path = step_only
    report = compare_versions(model, path, X, labels={"y": X[:, :, :2]})
    ((name, outputs),) = report.versions
    assert name.endswith("step.tflite")
    assert max(output.largest for output in outputs) < 1e-5
    assert [output.values for output in outputs] == [50 * 4 * 4, 50 * 4 * 2]
    with pytest.raises(ValueError, match=r"step.tflite runs one timestep in a call\. .* Give the"):
        compare_versions(path, path, X)
