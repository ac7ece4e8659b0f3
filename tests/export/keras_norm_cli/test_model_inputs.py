"""The inputs of a .keras file, read without Keras, are the inputs that the exporters use."""

import keras
import pytest

from keras_norm.export.signature import input_specs
from keras_norm_cli.model_inputs import ModelInput, read_model_inputs


def sum_of(*inputs):
    """Build a model of some inputs."""
    flat = [keras.ops.sum(keras.ops.cast(x, "float32"), axis=-1) for x in inputs]
    return keras.Model(list(inputs), sum(flat))


def save(model, folder):
    model.save(folder / "model.keras")
    return folder / "model.keras"


@pytest.mark.parametrize(
    "model",
    [
        lambda: sum_of(keras.Input((None, 3), name="rows"), keras.Input((2, 3), name="b")),
        lambda: sum_of(keras.Input(batch_shape=(4, None, 3), name="x")),
        lambda: sum_of(keras.Input((None,), name="ids", dtype="int32")),
        lambda: sum_of(keras.Input((3,))),
        lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]),
        lambda: keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)]),
        lambda: sum_of(sum_of(keras.Input((3, 3), name="x"))(keras.Input((3, 3), name="y"))),
    ],
    ids=["two inputs", "static batch", "ids", "unnamed", "Sequential", "named", "nested"],
)
def test_the_inputs_are_those_of_the_exporters(model, tmp_path):
    model = model()
    specs = input_specs(keras.saving.load_model(save(model, tmp_path)))
    expected = {name: ModelInput(spec.shape, spec.dtype) for name, spec in specs.items()}
    assert read_model_inputs(tmp_path / "model.keras") == expected


@pytest.mark.parametrize("names", [["Text in"], ["a", "A"], [None, None], ["self"], ["größe"]])
def test_names_that_the_exporters_change_are_not_read(names, tmp_path):
    model = sum_of(*(keras.Input((3,), name=name) for name in names))
    assert read_model_inputs(save(model, tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04damaged"])
def test_a_damaged_file_has_no_inputs(content, tmp_path):
    (tmp_path / "model.keras").write_bytes(content)
    assert read_model_inputs(tmp_path / "model.keras") is None
