"""The data folder, and a folder with small synthetic files."""

import os
import pathlib

import numpy as np
import pytest

from experiments.harness import sentences


@pytest.fixture
def data():
    """Return the data folder; skip the test without it."""
    folder = os.environ.get("KERAS_NORM_DATA")
    if folder is None:
        pytest.skip("KERAS_NORM_DATA names no folder with the data of the studies")
    return pathlib.Path(folder)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder with a few sentences in every file format."""
    files = tmp_path / "sentence_classification"
    files.mkdir()
    parts = ("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test")
    for name in (*sentences.FILES.values(), *parts):
        (files / name).write_text("".join(f"{k % 2} {name} {k}\n" for k in range(40)))

    def from_tfds(name, split, data):
        texts = [f"{name} {split} {k}".encode() for k in range(40)]
        return {"text": np.array(texts, object), "label-coarse": np.arange(40) % 6}

    monkeypatch.setattr(sentences.data, "from_tfds", from_tfds)
    monkeypatch.setattr(sentences.data, "SIZES", {})
    return tmp_path
