"""The digits example with one epoch: it trains, exports, checks and plots."""

import keras
import numpy as np
import pytest

import keras_norm
from examples import digits


def test_the_demo_passes_its_checks_and_writes_its_files(tmp_path, capsys, monkeypatch, check_few):
    check_few(digits)
    # SimpleRNN layers are faster to trace, and one exported model is enough here.
    layers = {
        "LSTM": lambda: keras.layers.SimpleRNN(8),
        "LN-LSTM": lambda: keras_norm.LayerNormSimpleRNN(8),
        "BN-LSTM": lambda: keras_norm.BatchNormSimpleRNN(8, max_timesteps=digits.ROWS),
    }
    assert set(layers) == set(digits.LAYERS)
    monkeypatch.setattr(digits, "LAYERS", layers)
    monkeypatch.setattr(digits, "EXPORTED", ("BN-LSTM",))
    monkeypatch.chdir(tmp_path)
    assert digits.main(["--epochs", "1", "--out", "demo"]) == 0
    folder = tmp_path / "demo" / "bn_lstm"
    assert (folder / "saved_model" / "saved_model.pb").is_file()
    assert (folder / "model.tflite").is_file()
    assert "PASS" in (folder / "report.html").read_text()
    assert (tmp_path / "demo" / "learning_curves.png").is_file()
    printed = capsys.readouterr().out
    for words in ("LN-LSTM: ", "BN-LSTM: ", "after 45 steps", "  PASS: 2 artifacts equal"):
        assert words in printed
    # The output ends with the paths to open, and does not fill the screen.
    lines = printed.splitlines()
    assert lines[-2:] == ["demo/learning_curves.png", "demo/bn_lstm/report.html"]
    assert len(lines) < 12


@pytest.mark.parametrize("name", digits.LAYERS)
def test_the_models_of_the_demo_return_probabilities_of_ten_digits(name):
    probabilities = digits.build(name)(digits.load()[0][:3])
    assert probabilities.shape == (3, 10)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), np.ones(3), rtol=1e-5)
