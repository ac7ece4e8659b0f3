"""The example that turns an LSTM of PyTorch into a TFLite file."""

import numpy as np
import pytest
import safetensors.numpy

from examples import from_torch
from keras_norm.compat import load_torch_weights, read_weights


def test_the_keras_model_has_the_outputs_of_pytorch():
    entries = read_weights(from_torch.FILE)
    model, modules = from_torch.build()
    load_torch_weights(modules, entries, prefix="model")
    for length in ("8", "16"):
        y = model(entries[f"{length}.rows"])
        np.testing.assert_allclose(y, entries[f"{length}.logits"], rtol=0, atol=1e-5)


def test_the_tflite_file_has_the_outputs_of_pytorch(tmp_path, capsys):
    assert from_torch.main(["convert", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "model.tflite").is_file()
    printed = capsys.readouterr().out
    assert "inputs (20, 8, 8): difference to PyTorch" in printed
    assert "inputs (5, 16, 8): difference to PyTorch" in printed


def test_other_outputs_than_those_of_pytorch_give_status_1(tmp_path):
    entries = read_weights(from_torch.FILE)
    entries["16.logits"] = entries["16.logits"] + 1e-3
    safetensors.numpy.save_file(entries, tmp_path / "other.safetensors")
    arguments = ["--weights", str(tmp_path / "other.safetensors"), "--out", str(tmp_path)]
    assert from_torch.main(["convert", *arguments]) == 1


def test_pytorch_trains_the_classifier(tmp_path, capsys):
    pytest.importorskip("torch", reason="`make test-compat` installs PyTorch")
    file = tmp_path / "trained.safetensors"
    assert from_torch.main(["train", "--epochs", "1", "--weights", str(file)]) == 0
    assert "test accuracy" in capsys.readouterr().out
    model, modules = from_torch.build()
    entries = read_weights(file)
    load_torch_weights(modules, entries, prefix="model")
    np.testing.assert_allclose(model(entries["8.rows"]), entries["8.logits"], rtol=0, atol=1e-5)
