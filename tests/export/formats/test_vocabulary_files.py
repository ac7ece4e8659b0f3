"""Vocabularies are written as text files, whose line numbers are the ids."""

import keras
import pytest

from keras_norm.export import split_text_model, write_vocabularies
from tests.export import models, text_models


def test_the_number_of_a_line_is_the_id_of_its_token(tmp_path):
    preprocessing, _ = split_text_model(text_models.classifier())
    files = write_vocabularies(preprocessing, tmp_path / "new" / "vocabularies")
    assert files == {"words": tmp_path / "new" / "vocabularies" / "words.txt"}
    tokens = files["words"].read_text("utf-8").split("\n")
    texts = keras.ops.convert_to_tensor(["good zebra film"])
    ids = keras.ops.convert_to_numpy(preprocessing(texts))[0]
    assert [tokens[k] for k in ids] == ["good", "[UNK]", "film"]
    assert tokens[0] == ""


def test_keras_reads_the_tokens(tmp_path):
    files = write_vocabularies(text_models.classifier(), tmp_path)
    tokens = files["words"].read_text("utf-8").split("\n")
    layer = keras.layers.TextVectorization(vocabulary=tokens)
    assert layer.get_vocabulary() == tokens


def test_every_layer_has_a_file(tmp_path):
    assert {*write_vocabularies(text_models.mixed(), tmp_path)} >= {"colors", "animal"}
    assert (tmp_path / "colors.txt").read_text("utf-8") == "\n[UNK]\nred\ngreen\nblue"


def test_existing_files_are_kept_without_overwrite(tmp_path):
    write_vocabularies(text_models.classifier(), tmp_path)
    with pytest.raises(FileExistsError, match=r"words\.txt exists"):
        write_vocabularies(text_models.classifier(), tmp_path)
    write_vocabularies(text_models.classifier(), tmp_path, overwrite=True)


def test_a_model_without_vocabularies_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no TextVectorization or StringLookup layer"):
        write_vocabularies(models.dense(), tmp_path)


def test_wrong_arguments_are_named(tmp_path):
    (tmp_path / "notes.txt").touch()
    model = text_models.classifier()
    with pytest.raises(ValueError, match="must be a Keras model or layer; received"):
        write_vocabularies("model.keras", tmp_path)
    with pytest.raises(ValueError, match="overwrite must be True or False; received 'yes'"):
        write_vocabularies(model, tmp_path, overwrite="yes")
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        write_vocabularies(model, tmp_path / "notes.txt")


def test_a_token_with_a_line_break_is_refused_and_nothing_is_written(tmp_path):
    text = keras.Input((), dtype="string")
    layer = keras.layers.StringLookup(vocabulary=["a", "b\nc"], name="lines")
    with pytest.raises(ValueError, match=r'layer "lines" has the token .* with a line break'):
        write_vocabularies(keras.Model(text, layer(text)), tmp_path)
    assert list(tmp_path.iterdir()) == []
