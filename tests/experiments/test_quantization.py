"""Tasks and models of the quantization study; other tests cover its exports."""

import numpy as np
import pytest

from experiments import quantization


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder with a few questions."""
    questions = tmp_path / "sentence_classification"
    questions.mkdir()
    (questions / "TREC.train.all").write_text("0 what is it\n1 who is she\n")
    (questions / "TREC.test.all").write_text("1 who is it not\n")
    monkeypatch.setenv("KERAS_NORM_DATA", str(tmp_path))
    monkeypatch.setattr(quantization.data, "SIZES", {})


def test_without_a_data_folder_the_only_task_is_digits(monkeypatch):
    monkeypatch.delenv("KERAS_NORM_DATA", raising=False)
    assert [task.name for task in quantization.tasks()] == ["digits"]


@pytest.mark.usefixtures("folder")
def test_questions_are_word_ids_padded_on_the_left():
    _, task = quantization.tasks()
    # "is" is the most frequent word; "not" does not occur in training.
    np.testing.assert_array_equal(task.x_test[0, -4:], [4, 1, 3, 0])
    assert not task.x_test[0, :-4].any()
    np.testing.assert_array_equal(task.y_train, [0, 1])


def test_an_unrolled_model_equals_the_looped_model(monkeypatch):
    monkeypatch.delenv("KERAS_NORM_DATA", raising=False)
    (task,) = quantization.tasks()
    model, unrolled = (quantization.build(task, "LN-GRU", unroll=u) for u in (False, True))
    unrolled.set_weights(model.get_weights())
    x = task.x_test[:3]
    np.testing.assert_allclose(unrolled(x), model(x), rtol=0, atol=1e-5)
