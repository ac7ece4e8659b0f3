"""The smallest preset; streams, states, bits and texts against what they should be."""

import dataclasses
import hashlib
import json

import keras
import numpy as np
import pytest

import keras_norm
from experiments import character_model
from experiments.character_model import Settings, Text, cut
from experiments.harness.results import Run
from keras_norm.export import Step
from tests.rnn import kinds

SETTINGS = Settings(characters=100, units=4, length=4, batch=3, epochs=1)
ALPHABET = "\nabcde"


def random_text(count, seed=0):
    return np.random.default_rng(seed).integers(0, len(ALPHABET), count).astype("int32")


def built(name, streams=None):
    """A model whose states matter: its weights are not small."""
    model = character_model.build(Run("", name, 0), Text(ALPHABET, {}), SETTINGS, streams)
    kinds.randomize(model)
    return model


def bits_of(model, text, streams):
    """The bits of every character in each of the streams, by Keras' LSTM over whole streams."""
    lstm = keras.layers.LSTM(SETTINGS.units, return_sequences=True)
    length = (len(text) - 1) // streams
    read = text[: streams * length].reshape(streams, length)
    expected = text[1 : streams * length + 1].reshape(streams, length)
    one_hot = np.eye(len(ALPHABET), dtype="float32")[read]
    lstm.build(one_hot.shape)
    lstm.set_weights(model.get_layer("recurrent").get_weights())
    probabilities = np.array(model.get_layer("next")(lstm(one_hot)), "float64")
    return -np.log2(np.take_along_axis(probabilities, expected[..., None], axis=-1))


def test_smoke_trains_exports_checks_and_writes(data, tmp_path, capsys, monkeypatch):
    # One model, of a recurrence that is quick to trace; those of the example are built below.
    def quick(units, length, **options):
        return keras_norm.BatchNormSimpleRNN(units, length, **options)

    smoke = dataclasses.replace(character_model.PRESETS["smoke"], models=("BN-LSTM",))
    monkeypatch.setitem(character_model.PRESETS, "smoke", smoke)
    monkeypatch.setitem(character_model.LAYERS, "BN-LSTM", quick)
    arguments = ["--preset", "smoke", "--data", str(data), "--out", str(tmp_path)]
    assert character_model.main(arguments) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    (run,), (check,) = results["entries"]["runs"], results["entries"]["checks"]
    # Of 65 characters, none is much more probable than another yet.
    assert 4 < run["test_bits"] < np.log2(65) + 0.1
    assert len(run["curves"]["val_bits"]) == 1
    assert check["passed"]
    assert check["same_text"]
    assert len(check["generated"]) == 40
    assert (tmp_path / "curves.png").is_file()
    assert list((tmp_path / "logs").glob("*/train/events*"))
    folder = tmp_path / "tiny-shakespeare-bn-lstm"
    assert (folder / "saved_model" / "1" / "saved_model.pb").is_file()
    assert (folder / "model.tflite").is_file()
    assert capsys.readouterr().out.count(check["generated"]) == 3
    # Another text is a failure; nothing is measured again.
    check["same_text"] = False
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert character_model.main(arguments) == 1


def test_every_stream_goes_on_in_the_next_batch():
    streams, length = 3, 4
    read, following = cut(np.arange(51), streams, length)
    np.testing.assert_array_equal(following, read + 1)
    batches = read.reshape(-1, streams, length)
    assert len(batches) == 4
    for k, start in enumerate((0, 16, 32)):
        np.testing.assert_array_equal(batches[:, k].ravel(), np.arange(start, start + 16))


def test_states_are_carried_through_a_text_and_none_into_another():
    model = built("LSTM", SETTINGS.batch)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[character_model.bits])
    model.optimizer.learning_rate = 0.0
    texts = {"bits": random_text(49), "val_bits": random_text(25, seed=1)}
    train, validation = (cut(text, SETTINGS.batch, SETTINGS.length) for text in texts.values())
    history = model.fit(
        *train,
        validation_data=validation,
        callbacks=[character_model.FreshStates()],
        batch_size=SETTINGS.batch,
        epochs=2,
        shuffle=False,
        verbose=0,
    ).history
    for metric, text in texts.items():
        expected = bits_of(model, text, SETTINGS.batch).mean()
        np.testing.assert_allclose(history[metric], [expected, expected], rtol=1e-5)


@pytest.mark.parametrize("count", [21, 23, 4], ids=["whole pieces", "a rest", "less than a piece"])
def test_bits_are_those_of_all_characters_in_one_stream(count):
    model, text = built("LSTM", streams=1), random_text(count)
    found = character_model.bits_per_character(model, text, SETTINGS.length)
    np.testing.assert_allclose(found, bits_of(model, text, streams=1).mean(), rtol=1e-5)


def test_a_model_read_anew_and_timestep_by_timestep_writes_one_text():
    model = built("BN-LSTM")
    kinds.randomize_statistics(model)
    step = Step(model)
    # Beyond the timesteps that have statistics.
    texts = [
        character_model.generate(following, ALPHABET, count=12, seed=0)
        for following in (
            character_model.in_keras(model),
            character_model.in_file(step.joined, step),
        )
    ]
    assert texts[0] == texts[1]


def test_characters_are_drawn_as_often_as_they_are_probable():
    probabilities = np.array([0.1, 0.0, 0.6, 0.0, 0.3, 0.0], "float32")
    text = character_model.generate(lambda _: probabilities, ALPHABET, count=4000, seed=0)
    found = [text.count(character) / len(text) for character in ALPHABET]
    np.testing.assert_allclose(found, probabilities, atol=0.03)
    np.testing.assert_array_equal(np.array(found) > 0, probabilities > 0)


def test_spaces_of_the_penn_treebank_are_underscores():
    assert (
        character_model.character_form(" no it was n't \n <unk> N \n") == "no_it_was_n't\n<unk>_N\n"
    )


def test_the_penn_treebank_is_the_one_that_is_published_as_characters(data):
    words = (data / "ptb" / "ptb.train.txt").read_text()
    published = (" ".join(character_model.character_form(words)) + " ").encode()
    # Git's name of ptb.char.train.txt in github.com/tomsercu/lstm.
    blob = hashlib.sha1(b"blob %d\0" % len(published) + published).hexdigest()
    assert blob == "84b890a87aed6ad2989aa12d03f1129c41d727b2"
