"""Every example but digits and serving: its model, its texts, and its messages.

The slow tests run the whole examples, which train, export and check, with few samples and units.
"""

import contextlib
import gzip
import os
import re

import keras
import numpy as np
import pytest

from examples import characters, sentences, timeseries, translation


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run an example with few units, and return its output."""
    if "KERAS_NORM_DATA" not in os.environ:
        pytest.skip("set KERAS_NORM_DATA to the folder with the data of the examples")

    def run(example, samples):
        monkeypatch.setattr(example, "UNITS", 4)
        arguments = ["--out", str(tmp_path), "--epochs", "1", "--samples", str(samples)]
        assert example.main(arguments) == 0
        assert (tmp_path / "saved_model" / "saved_model.pb").is_file()
        assert (tmp_path / "model.tflite").is_file()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_sentences_trains_exports_and_checks(run):
    output = run(sentences, 40)
    assert "val_accuracy" in output
    assert "The file on the ids of `tokenize` and the model on texts differ by" in output


@pytest.mark.slow
def test_timeseries_trains_exports_and_checks(run, monkeypatch):
    monkeypatch.setattr(timeseries, "HELD_OUT", (4,))  # a participant among the first 40 gestures
    assert "of participants not in the training data" in run(timeseries, 40)


@pytest.mark.slow
def test_characters_trains_exports_checks_and_generates_text(run, monkeypatch):
    monkeypatch.setattr(characters, "LENGTH", 10)
    assert re.search(r"\n\n(.|\n){300}\n$", run(characters, 4))


@pytest.mark.slow
def test_translation_trains_exports_checks_and_translates(run):
    assert len(re.findall(r"  \(.+ [.?!]\)$", run(translation, 240), re.MULTILINE)) == 10


@pytest.mark.parametrize(
    ("example", "sizes", "inputs"),
    [
        (characters, [9], np.ones((2, 5), "int32")),
        (sentences, [["what", "is"]], keras.ops.convert_to_tensor(["What is this", "is"])),
        (timeseries, [], np.ones((2, 5, 3), "float32")),
        (translation, [8, 9], [np.ones((2, 5), "int32"), np.ones((2, 3), "int32")]),
    ],
)
def test_the_model_of_an_example_returns_probabilities(example, sizes, inputs, monkeypatch):
    monkeypatch.setattr(example, "UNITS", 4)
    probabilities = np.sum(example.build(*sizes)(inputs), axis=-1)
    np.testing.assert_allclose(probabilities, np.ones(probabilities.shape), rtol=1e-5)


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


@pytest.mark.parametrize("example", [characters, sentences, timeseries])
def test_data_that_cannot_be_loaded_exit_with_one_line(example, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_NORM_DATA", str(tmp_path))

    def load(name, *, data_dir, **_):
        raise OSError(f"no route from {data_dir} to {name}")

    monkeypatch.setattr(example.tfds, "load", load)
    with pytest.raises(SystemExit, match=r"TFDS could not load (\w+): no route from .*/tfds to \1"):
        example.load()


TRUNCATED = gzip.compress("Hi.\t嗨。\tCC-BY\n".encode() * 99)[:-9]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.txt", None, "No such file or directory: .*nowhere.txt"),
        ("cut.txt.gz", TRUNCATED, "ended before the end-of-stream marker"),
        ("damaged.txt.gz", TRUNCATED[:30] + b"?" + TRUNCATED[31:], "Error -3"),
        ("other.txt", b"Hi.", "not enough values to unpack"),
        ("few.txt", "Hi.\t嗨。\n".encode() * 200, "not enough values to unpack"),
    ],
    ids=["missing", "truncated", "damaged", "not pairs", "too few"],
)
def test_pairs_that_cannot_be_read_exit_with_one_line(name, content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        translation.main(["--pairs", str(tmp_path / name)])
    assert ended.value.code == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.search(rf"{name} has no sentence pairs .*{message}.*manythings.org/anki", line)
