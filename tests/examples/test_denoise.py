"""The noise suppressor: its measure, its model, and the whole program."""

import re

import keras
import numpy as np
import pytest

from examples import denoise
from keras_norm.export.formats import artifact_format


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(denoise, "UNITS", 4)
    keras.utils.set_random_seed(0)
    return denoise.build()


@pytest.fixture
def inputs():
    return np.random.default_rng(0).normal(size=(2, 6, 257)).astype("float32")


def test_an_error_of_a_tenth_of_the_sound_is_20_db():
    _, clean = denoise.mix(0, 2, 30)
    assert denoise.snr(1.1 * clean, clean) == pytest.approx(20, abs=1e-3)


def test_the_ideal_mask_removes_noise():
    noisy, clean = denoise.mix(0, 4, 100)
    mask = np.clip(np.real(clean / noisy), 0, 1)
    assert denoise.snr(noisy * mask, clean) > denoise.snr(noisy, clean) + 8


def test_the_mask_does_not_depend_on_the_loudness(model, inputs):
    np.testing.assert_allclose(model(inputs + 3), model(inputs), atol=1e-5)


def test_the_mask_of_a_frame_does_not_depend_on_later_frames(model, inputs):
    changed = np.concatenate([inputs[:, :4], -inputs[:, 4:]], axis=1)
    np.testing.assert_array_equal(model(changed)[:, :4], model(inputs)[:, :4])


class Passed:
    """A report of a check without a failure."""

    def print(self):
        pass


def test_the_files_remove_as_much_noise_as_the_model(monkeypatch, tmp_path, capsys):
    pytest.importorskip("tflite_micro")
    monkeypatch.setattr(artifact_format, "is_installed", lambda extra: extra == "micro")
    mix = denoise.mix
    monkeypatch.setattr(denoise, "UNITS", 32)
    monkeypatch.setattr(denoise, "mix", lambda seed, count, frames: mix(seed, count, 100))
    checked = []  # a check takes a minute
    monkeypatch.setattr(denoise, "check", lambda *given: checked.append(given) or Passed())
    assert denoise.main(["--out", str(tmp_path), "--epochs", "20", "--samples", "60"]) == 0
    ratios = dict(re.findall(r"^SNR (.+): (-?\d+\.\d+) dB$", capsys.readouterr().out, re.MULTILINE))
    names = ("of the noisy sounds", "with the Keras model")
    noisy, expected = (float(ratios.pop(name)) for name in names)
    assert expected > noisy + 1
    assert len(ratios) == 6
    np.testing.assert_allclose(list(map(float, ratios.values())), expected, atol=0.2)
    names = ("float32.tflite", "int16x8.tflite", "int8.tflite")
    ((_, files, _),) = checked
    assert {file.name for file in files if file.is_file()} == set(names)
