"""Train models on JAX, export and check them; print the tracebacks of all programs as JSON.

`test_jax.py` writes the folder, runs this program in one process, and reads the exported files.

Usage: KERAS_BACKEND=jax python -m tests.export.export_on_jax FOLDER
"""

import json
import pathlib
import sys
import traceback
from collections.abc import Callable

import jax
import keras
import numpy as np

import keras_norm
from keras_norm.export import Step, check, compare_versions, export_saved_model, export_tflite
from tests.export import models
from tests.export.own_layers import Doubled

SIZES = {"batch_sizes": [3], "lengths": [3, 6]}


def padded_sequences() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 7, (32, 1, 1))
    x = np.where(np.arange(6)[:, None] < lengths, rng.normal(size=(32, 6, 3)), 0.0)
    return x.astype("float32"), x.sum(axis=(1, 2))


class Batches(keras.utils.PyDataset):
    """Two batches of JAX' arrays, with labels."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, k: int) -> tuple[jax.Array, jax.Array]:
        x = jax.numpy.asarray(padded_sequences()[0][16 * k : 16 * k + 16])
        return x, x.sum(axis=(1, 2))


def trained_model() -> keras.Model:
    """A masked LN-LSTM, a BN-LSTM, a Lambda and a custom layer, trained for a few steps on JAX."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 3), name="x")
    h = keras.layers.Masking()(inputs)
    h = keras_norm.LayerNormLSTM(4, return_sequences=True, name="ln")(h)
    h = keras_norm.BatchNormLSTM(4, max_timesteps=6, name="bn")(h)
    h = keras.layers.Lambda(lambda z: z + 1.0)(Doubled()(h))
    model = keras.Model(inputs, keras.layers.Dense(1, name="y")(h))
    model.compile("adam", "mse")
    model.fit(*padded_sequences(), epochs=2, batch_size=8, verbose=0)
    return model


def round_trip(folder: pathlib.Path) -> None:
    """Export and check both formats, and write the inputs and JAX's outputs."""
    model, (x, _) = trained_model(), padded_sequences()
    weights = model.get_weights()
    files = [
        export_saved_model(model, folder / "served", version=1),
        export_tflite(model, folder / "model.tflite", samples=jax.numpy.asarray(x)),
    ]
    assert files == [folder / "served" / "1", folder / "model.tflite"], files

    def on_jax(inputs: dict[str, np.ndarray]) -> dict[str, jax.Array]:
        return {"y": jax.numpy.asarray(model.predict(inputs["x"], verbose=0))}

    report = check(model, [*files, on_jax], Batches(), max_gap=100.0, **SIZES)
    assert report, repr(report)
    assert report.gap.verdict == "ok", report.gap
    assert report.samples == 32
    assert report.keras.property("backends").status == "pass"
    assert {result.property("streaming").status for result in report.artifacts[:3]} == {"pass"}
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    # Files and models are compared without a second process.
    for _, (output,) in compare_versions(model, files, x).versions:
        assert output.largest < 1e-5
    np.savez(folder / "arrays.npz", x=x, y=model.predict(x, verbose=0))


def other_outputs_on_tensorflow(folder: pathlib.Path) -> None:
    """Check a file that TensorFlow exported from a model that computes other outputs on JAX."""
    model = keras.saving.load_model(folder / "other.keras")
    report = check(model, folder / "other", padded_sequences()[0], **SIZES)
    assert not report
    found = report.keras.property("backends")
    assert found.status == "fail"
    assert "the first layer that differs is 'own'" in found.detail, found.detail


def single_step(folder: pathlib.Path) -> None:
    """`Step` runs on JAX itself."""
    model = models.of(keras.layers.GRU(4, return_sequences=True, name="y"))
    step, (x, _) = Step(model), padded_sequences()
    outputs = step.over_time(step.joined, {"x": x[:2]})["y"]
    np.testing.assert_allclose(outputs, model.predict(x[:2], verbose=0), rtol=0, atol=1e-5)


PROGRAMS: dict[str, Callable[[pathlib.Path], None]] = {
    program.__name__: program for program in (round_trip, other_outputs_on_tensorflow, single_step)
}


def main(folder: pathlib.Path) -> None:
    assert keras.backend.backend() == "jax"
    errors = {}
    for name, program in PROGRAMS.items():
        try:
            program(folder)
            errors[name] = ""
        except Exception:
            errors[name] = traceback.format_exc()
    print(json.dumps(errors))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
