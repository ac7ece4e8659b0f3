"""Every example but digits and serving: its model, its texts, and its messages.

The slow tests run the whole examples, which train, export and check, with few samples and units.
"""

import contextlib
import os
import re

import keras
import numpy as np
import pytest

from examples import characters, sentences, timeseries, translation


@pytest.fixture
def run(monkeypatch, tmp_path, capsys, check_few):
    """Run an example with few units, and return its output."""
    if "KERAS_NORM_DATA" not in os.environ:
        pytest.skip("set KERAS_NORM_DATA to the folder with the data of the examples")

    def run(example, samples):
        check_few(example)
        monkeypatch.setattr(example, "UNITS", 4)
        arguments = ["--out", str(tmp_path), "--epochs", "1", "--samples", str(samples)]
        assert example.main(arguments) == 0
        assert (tmp_path / "saved_model" / "saved_model.pb").is_file()
        assert (tmp_path / "model.tflite").is_file()
        return capsys.readouterr().out

    return run


def test_sentences_trains_exports_and_checks(run):
    output = run(sentences, 40)
    assert "val_accuracy" in output
    assert "Outputs of the TFLite file and of the model differ by at most" in output


def test_timeseries_trains_exports_and_checks(run, monkeypatch):
    monkeypatch.setattr(timeseries, "HELD_OUT", (4,))  # a participant among the first 40 gestures
    assert "of participants not in the training data" in run(timeseries, 40)


def test_characters_trains_exports_checks_and_generates_text(run, monkeypatch):
    monkeypatch.setattr(characters, "LENGTH", 10)
    assert re.search(r"\n\n(.|\n){300}\n$", run(characters, 4))


def test_translation_trains_exports_checks_and_translates(run):
    assert len(re.findall(r"  \(.+ [.?!]\)$", run(translation, 240), re.MULTILINE)) == 10


def test_a_text_is_generated_character_by_character_with_the_states_of_the_step(monkeypatch):
    """The fake step counts its calls in its state, and returns the next letter of the alphabet."""

    @contextlib.contextmanager
    def runner(file, signature_name):
        assert signature_name == "step"
        yield lambda inputs: {
            "next": np.eye(4)[(inputs["characters"] + 1) % 4],
            "h": inputs["h"] + 1,
        }

    class Step:
        def initial_states(self, batch):
            return {"h": np.zeros(batch)}

    monkeypatch.setattr(characters, "open_runner", runner)
    assert characters.generate("file", Step(), "\nabc", 6) == "abc\nab"


def test_tokenize_computes_the_ids_of_the_layer():
    layer = sentences.build(["what", "is", "é"]).get_layer("words")
    texts = ["What  IS\tthis ?", "É é", ""]
    expected = keras.ops.convert_to_numpy(layer(keras.ops.convert_to_tensor(texts)))
    np.testing.assert_array_equal(sentences.tokenize(texts, layer.get_vocabulary()), expected)


def test_encode_adds_the_first_and_last_ids_to_every_sentence():
    ids = translation.encode([["a", "b"], ["a"]], {"a": 7}, [2], [3])
    np.testing.assert_array_equal(ids, [[2, 7, 1, 3], [2, 7, 3, 0]])


def test_a_translation_stops_at_the_end_token(monkeypatch):
    likely = iter([4, 5, translation.END, *[4] * translation.LONGEST])

    @contextlib.contextmanager
    def runner(file):
        yield lambda inputs: {"next": np.eye(6)[[[next(likely)]]]}

    monkeypatch.setattr(translation, "open_runner", runner)
    sentences = translation.translate("file", np.zeros((1, 3)), {4: "hello", 5: "world"})
    assert sentences == ["hello world"]
