"""Models of texts and their SavedModels: export, golden cases, check and comparison."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm_verify
from keras_norm.export import check, compare_versions, export_saved_model, packages
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner
from keras_norm.export.formats.verification import judge_if_it_runs
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import text_models


@pytest.fixture(scope="module")
def classifier():
    """Build a classifier of texts; no test changes it."""
    return text_models.classifier()


@pytest.fixture(scope="module")
def saved(classifier, tmp_path_factory):
    """Export `classifier` as a SavedModel, to read, with warmup requests."""
    path = tmp_path_factory.mktemp("text") / "reviews"
    return export_saved_model(classifier, path, warmup=packages.is_installed("serving"))


@pytest.fixture(scope="module")
def mixed():
    """Build a model of texts and numbers with an output of texts; no test changes it."""
    return text_models.mixed()


@pytest.fixture(scope="module")
def saved_mixed(mixed, tmp_path_factory):
    """Export `mixed` as a SavedModel, to read."""
    return export_saved_model(mixed, tmp_path_factory.mktemp("mixed") / "animals")


def test_an_export_warns_of_an_empty_text_that_the_model_cannot_run(classifier, caplog):
    assert judge_if_it_runs(classifier) is not None
    (message,) = caplog.messages
    assert message.startswith('model "reviews" fails on a request of one empty text')
    assert "output_sequence_length" in message


def test_golden_cases_have_an_empty_text_if_the_model_runs_on_it(tmp_path, caplog):
    model = text_models.classifier(output_sequence_length=6)
    path = export_saved_model(model, tmp_path / "m", step=False)
    last = keras_norm_verify.read_golden_cases(path).cases[-1]
    assert (last.name, last.inputs["review"].tolist()) == ("batch 1, without text", [b""])
    assert keras_norm_verify.verify(path) == []
    assert not caplog.messages


def test_golden_cases_store_random_texts_without_pickle(saved):
    _, case = keras_norm_verify.read_golden_cases(saved).cases
    assert case.inputs["review"].dtype.kind == "S"
    assert case.inputs["review"][2] == b""
    assert keras_norm_verify.verify(saved) == []


def test_golden_cases_store_outputs_of_texts(saved_mixed):
    cases = keras_norm_verify.read_golden_cases(saved_mixed).cases
    animals = {name for case in cases for name in case.expected["animal"].tolist()}
    assert animals <= {b"[UNK]", b"cat", b"dog"}
    assert keras_norm_verify.verify(saved_mixed) == []


def test_another_text_fails_the_verification(saved_mixed):
    cases = keras_norm_verify.read_golden_cases(saved_mixed)
    case = cases.cases[0]
    answers = case.expected | {"animal": np.array([b"horse"], object)}
    only = dataclasses.replace(cases, cases=(case,))
    failure, *_ = keras_norm_verify.verify(saved_mixed, only, run=lambda *_: answers)
    assert failure.endswith("output 'animal' differs in 1 of 1 texts")


@pytest.fixture(scope="module")
def report(classifier, saved):
    """Check the SavedModel of `classifier` with texts."""
    return check(classifier, saved, text_models.texts())


def test_a_check_takes_a_list_of_texts(report):
    assert report
    assert {result.name for result in report.artifacts} == {"reviews", "reviews (C API)"}
    assert report.timesteps == max(len(text.split()) for text in text_models.texts())
    # It has no timesteps, and a recurrent layer needs at least one.
    assert any(note.startswith("batch 1, without text: left out") for note in report.notes)


def test_a_check_of_texts_and_numbers_compares_texts_for_equality(mixed, saved_mixed):
    report = check(mixed, saved_mixed, text_models.mixed_data())
    assert report
    assert {output.output for output in report.artifacts[0].outputs} == {"scores", "animal"}
    report.page()


@pytest.mark.slow
def test_other_weights_are_found_in_a_model_of_texts(classifier, saved, unmeasured_rounding):
    other = text_models.classifier()
    other.set_weights(classifier.get_weights())
    kernel, bias = other.get_layer("kind").get_weights()
    other.get_layer("kind").set_weights([2.0 * kernel, bias])
    (finding, *_) = check(other, saved, text_models.texts()).findings
    assert "the file does not contain the weights of kind" in finding.observation


def test_padding_without_a_mask_fails_row_independence():
    review = keras.Input((), dtype="string", name="review")
    ids = keras.layers.TextVectorization(vocabulary=text_models.WORDS)(review)
    x = keras.layers.Embedding(20, 4)(ids)
    model = keras.Model(review, keras.layers.GlobalAveragePooling1D()(x))
    report = check(model, KerasRunner(model), text_models.texts()[:-1])
    assert report.keras.property("row independence").status == "fail"
    assert any("Embedding(mask_zero=True)" in finding.advice for finding in report.findings)


@pytest.mark.slow
def test_outputs_for_every_word_are_independent_of_longer_texts(classifier, tmp_path):
    tagger = keras.Model(classifier.inputs, classifier.get_layer("vectors").output)
    report = check(tagger, export_saved_model(tagger, tmp_path / "m"), text_models.texts()[:-1])
    assert report.artifacts[0].property("row independence").status == "pass"


def test_long_empty_and_undecodable_texts_pass_through_the_c_api(tmp_path):
    text = keras.Input((), dtype="string", name="text")
    path = export_saved_model(keras.Model(text, {"same": text}), tmp_path / "m")
    texts = np.array(["é" * 10_000, "", "a\0b", b"\xff"], object)
    with CApiRunner(path) as run:
        assert run({"text": texts})["same"].tolist() == [
            "é".encode() * 10_000,
            b"",
            b"a\0b",
            b"\xff",
        ]


def test_versions_of_a_model_of_texts_are_compared(classifier, saved):
    report = compare_versions(classifier, saved, text_models.texts())
    assert report.versions[0][1][0].changed == 0


def test_a_layer_without_unknown_words_gets_known_words(tmp_path):
    color = keras.Input((), dtype="string", name="color")
    layer = keras.layers.StringLookup(vocabulary=text_models.COLORS, num_oov_indices=0)
    model = keras.Model(color, keras.layers.Embedding(3, 2)(layer(color)))
    path = export_saved_model(model, tmp_path / "m")
    for case in keras_norm_verify.read_golden_cases(path).cases:
        assert {*case.inputs["color"].tolist()} <= {c.encode() for c in text_models.COLORS}


def test_warmup_requests_have_texts(saved):
    serving = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    (file,) = saved.glob("assets.extra/tf_serving*")
    records = tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
    logs = [serving.PredictionLog.FromString(record).predict_log for record in records]
    texts = [tf.make_ndarray(log.request.inputs["review"]) for log in logs]
    assert [len(text) for text in texts] == [1, 3]
    assert texts[1][2] == b""
