"""The smallest preset, and what the task asks for."""

import json

import keras
import numpy as np
import pytest

from experiments import sequential_mnist

SETTINGS = sequential_mnist.PRESETS["smoke"]


def test_smoke_trains(data, tmp_path, capsys, monkeypatch):
    # One of the layers, on both tasks: below, each is trained for a step.
    monkeypatch.setattr(sequential_mnist, "LAYERS", {"LSTM": sequential_mnist.LAYERS["LSTM"]})
    arguments = ["--preset", "smoke", "--data", str(data), "--out", str(tmp_path)]
    assert sequential_mnist.main(arguments) == 0
    entries = json.loads((tmp_path / "results.json").read_text())["entries"]
    assert [run["task"] for run in entries["runs"]] == ["in order", "permuted"]
    assert (tmp_path / "curves.png").is_file()
    assert list((tmp_path / "logs").glob("*/train/events*"))
    assert "permuted" in capsys.readouterr().out


def test_permuted_digits_have_every_pixel_once():
    pixels = np.random.default_rng(0).normal(size=(5, 49, 1))
    (moved, classes) = sequential_mnist.permuted({"test": (pixels, np.arange(5))})["test"]
    np.testing.assert_array_equal(np.sort(moved, axis=1), np.sort(pixels, axis=1))
    np.testing.assert_array_equal(classes, np.arange(5))
    assert (moved != pixels).any()


def test_a_pixel_is_the_mean_of_a_square(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 1), "uint8")
    monkeypatch.setattr(
        sequential_mnist.data,
        "from_tfds",
        lambda *_: {"image": images, "label": np.zeros(2, "int64")},
    )
    asked = sequential_mnist.command.parse("", "A.", sequential_mnist.PRESETS, [])
    pixels, _ = sequential_mnist.load(asked)["test"]
    assert pixels.shape == (2, 49, 1)
    # The second pixel of the second row.
    expected = images[0, 4:8, 4:8].astype("float64").mean() / 255
    np.testing.assert_allclose(pixels[0, 8, 0], expected, rtol=1e-6)


def test_the_candidate_starts_as_the_identity_and_the_gates_orthogonal():
    kernel = np.array(sequential_mnist.IdentityCandidate()((6, 24)))
    gates = np.split(kernel, 4, axis=1)
    np.testing.assert_array_equal(gates[2], np.eye(6))
    for gate in gates:
        np.testing.assert_allclose(gate @ gate.T, np.eye(6), atol=1e-6)
    assert np.abs(gates[0] - gates[1]).max() > 0.1


@pytest.mark.parametrize(
    ("task", "layer", "noisy"),
    [
        ("in order", "LSTM", True),
        ("in order", "BN-LSTM", True),
        ("permuted", "LSTM", False),
        ("permuted", "LN-LSTM", False),
    ],
)
def test_h_starts_from_noise_in_training_alone(task, layer, noisy):
    x = np.random.default_rng(0).normal(size=(3, 9, 1)).astype("float32")
    model = sequential_mnist.build(SETTINGS, 9, task, layer)
    first, second = (np.array(model(x, training=True)) for _ in range(2))
    assert (np.abs(first - second).max() > 1e-4) == noisy
    np.testing.assert_array_equal(model(x), model(x))


def test_gradients_are_finite_for_digits_that_begin_black():
    x = np.zeros((3, 20, 1), "float32")
    x[:, 15:] = np.random.default_rng(0).random((3, 5, 1))
    for model in sequential_mnist.LAYERS:
        keras.utils.set_random_seed(0)
        classifier = sequential_mnist.build(SETTINGS, 20, "permuted", model)
        classifier.compile("sgd", "sparse_categorical_crossentropy")
        classifier.train_on_batch(x, np.arange(3))
        assert all(np.isfinite(weight).all() for weight in classifier.get_weights())
