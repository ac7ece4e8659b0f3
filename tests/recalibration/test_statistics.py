"""Statistics: their file, and parts that cannot be read or merged."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import Statistics, collect_statistics, merge_statistics
from tests.recalibration.models import X, model_of


@pytest.fixture(scope="module")
def model():
    return model_of(keras_norm.BatchNormalization(name="norm"), keras.layers.Dense(2))


@pytest.fixture(scope="module")
def statistics(model):
    return collect_statistics(model, X)


def test_a_file_has_the_statistics(statistics, tmp_path):
    path = tmp_path / "statistics.npz"
    statistics.save(path)
    found = Statistics.load(path)
    assert (found.batches, found.weights) == (statistics.batches, statistics.weights)
    for field in dataclasses.fields(found.layers["norm"]):
        value, expected = (getattr(s.layers["norm"], field.name) for s in (found, statistics))
        np.testing.assert_array_equal(value, expected, strict=field.name != "called")


def test_a_model_loaded_twice_has_equal_paths_and_weights(tmp_path):
    """Keras numbers the cell of a recurrent layer anew in each loaded model."""
    layers = [keras_norm.BatchNormGRU(2, 3), keras_norm.BatchNormalization()]
    model_of(*layers, shape=(None, 4)).save(tmp_path / "model.keras")
    models = [keras.saving.load_model(tmp_path / "model.keras") for _ in range(2)]
    x = np.broadcast_to(X[:, None], (70, 3, 4))
    merge_statistics(collect_statistics(model, x) for model in models)


def test_paths_have_the_names_of_a_user_and_count_equal_names():
    """Keras numbers the layers that a subclassed model creates without a name."""

    class Own(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.norms = [keras_norm.BatchNormalization() for _ in range(2)]
            self.norms.append(keras_norm.BatchNormalization(name="norm_2"))

        def call(self, x, training=None):
            for norm in self.norms:
                x = norm(x, training=training)
            return x

    (own := Own())(X)
    paths = ["batch_normalization", "batch_normalization_1", "norm_2"]
    assert list(collect_statistics(own, X).layers) == paths


def test_the_moving_statistics_of_collected_layers_may_differ():
    """Replicas of a model may have different moving statistics; those of other layers count."""
    first, second = (model_of(keras_norm.BatchNormalization(name="norm")) for _ in range(2))
    second.get_layer("norm").moving_mean.assign(np.ones(4))
    merge_statistics([collect_statistics(first, X), collect_statistics(second, X)])
    frozen, other = (
        model_of(*(keras_norm.BatchNormalization(name=name) for name in ("norm", "last")))
        for _ in range(2)
    )
    other.get_layer("norm").moving_mean.assign(np.ones(4))
    parts = [collect_statistics(m, X, layers=["last"]) for m in (frozen, other)]
    with pytest.raises(ValueError, match="Part 2 was collected with other weights than part 1"):
        merge_statistics(parts)


# Refused parts and files. -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (list, ValueError, "There are no statistics to merge"),
        (lambda s: [s, "part.npz"], TypeError, r"part 2: 'part.npz'\. Read a file with"),
        (lambda s: [s, dataclasses.replace(s, weights="0")], ValueError, "Part 2 was .* weights"),
        (
            lambda s: [s, dataclasses.replace(s, layers={})],
            ValueError,
            r"Part 2 belongs to another model: it has no statistics for layer 'norm', and part 1 "
            r"has statistics of shape \(4,\)",
        ),
    ],
    ids=["nothing", "path", "other weights", "missing layer"],
)
def test_parts_that_do_not_fit_together_are_refused(statistics, make, error, message):
    with pytest.raises(error, match=message):
        merge_statistics(make(statistics) if make is not list else [])


def changed_file(statistics, path, **changes):
    """Write a file of statistics in which arrays are replaced, or left out if they are None."""
    statistics.save(path)
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format version 2, but this version of keras_norm reads version 1"),
        ({"format": None}, "has the format version None"),
        ({"format": [1, 1]}, r"has the format version \[1, 1\]"),
        ({"batches": -3}, "has a negative number of batches"),
        ({"mean_0": None}, "is not a file of statistics, or is damaged: 'mean_0"),
        ({"mean_0": np.full(4, np.nan)}, "layer 'norm' has statistics that are NaN or infinite"),
        ({"mean_0": np.zeros(4, "float32")}, "layer 'norm' has arrays that are not float64"),
        (
            {"batches_0": np.array(3, "int32")},
            "layer 'norm' has arrays that are not float64 and int",
        ),
        ({"batches_0": np.array(-1)}, "layer 'norm' has a negative count"),
        ({"mean_0": np.zeros(3)}, "layer 'norm' has arrays whose shapes do not fit together"),
        ({"count_0": np.array([-1.0])}, "layer 'norm' has a negative count or variance"),
        ({"mean_0": np.array([{}] * 4)}, "is damaged: Object arrays cannot be loaded"),
    ],
    ids=[
        "format",
        "none",
        "formats",
        "batches",
        "missing",
        "NaN",
        "dtype",
        "dtype of batches",
        "batches of a layer",
        "shape",
        "negative",
        "pickle",
    ],
)
def test_a_file_with_wrong_arrays_is_refused_in_one_line(statistics, tmp_path, changes, message):
    path = tmp_path / "part.npz"
    changed_file(statistics, path, **changes)
    with pytest.raises(ValueError, match=f"^'.*part.npz' .*{message}") as error:
        Statistics.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_damaged_file_is_refused_in_one_line(statistics, tmp_path, share):
    contents = statistics.to_bytes()
    path = tmp_path / "part.npz"
    path.write_bytes(contents[: int(share * len(contents))])
    with pytest.raises(ValueError, match=r"part.npz' is not a file of statistics, or is damaged"):
        Statistics.load(path)
    with pytest.raises(FileNotFoundError):
        Statistics.load(tmp_path / "missing.npz")


@pytest.mark.parametrize("layers", [["dense"], "norm", []])
def test_layers_must_be_batch_normalizations_of_the_model(model, layers):
    with pytest.raises(ValueError, match=r"Received: layers=.* has these paths: \['norm'\]"):
        collect_statistics(model, X, layers=layers)


def test_layers_may_be_a_generator(model):
    found = collect_statistics(model, X, layers=(path for path in ["norm"]))
    assert list(found.layers) == ["norm"]
