"""BLEU, token-by-token decoding, and translations by exported files."""

import numpy as np
import pytest

from experiments import translation
from experiments.harness import translation_pairs, translators
from experiments.harness.study import Arm
from tests.rnn import kinds

MADE = [
    (
        f"Its letter {a} is at the {b} place{' of all' * (b > '4')}.",
        f"字母{a}{b}{'都' * (a > 'd')}。",
    )
    for a in "abcdefgh"
    for b in "12345678"
]
ARM = Arm(translation_pairs.WORDS, "LSTM")  # a norm would only make tracing slow


@pytest.fixture(scope="module")
def parts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation_pairs, "read", lambda folder: MADE)
        patch.setattr(translators, "UNITS", 8)
        yield translation.load(ARM.task, None, None)


@pytest.fixture(scope="module")
def model(parts):
    """Return a model with large weights, so that its states matter."""
    model = translation.build(ARM, parts)
    kinds.randomize(model)
    return model


def test_bleu_uses_the_best_reference():
    references = np.empty(2, object)
    references[:] = [["a b c d e", "e d c b a"], ["one two three four"]]
    assert translation.bleu(["e d c b a", "one two three four"], references) == pytest.approx(100)
    assert translation.bleu(["e d c b a", "four three two one"], references) < 80


def test_the_loss_excludes_padding(model, parts):
    x, y = parts["test"]
    model.compile(loss=translation.loss)
    nats = translation.score(model.predict(x, verbose=0), y)["nats"]
    expected = nats * len(y) / (y != translation_pairs.PAD).sum()
    assert model.evaluate(x, y, 500, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_decoding_token_by_token_equals_decoding_the_whole_sentence(model, parts):
    x, _ = parts["test"]
    read, write = (model.get_layer(name).predict_on_batch for name in ("reader", "writer"))
    states = {"chinese": x["chinese"], **read({"chinese": x["chinese"]})}
    found = []
    for token in x["english"].T:
        answer = write({"english": token[:, None], **states})
        found.append(answer["next"])
        states |= {"h": answer["h"], "c": answer["c"]}
    there = x["english"] != translation_pairs.PAD
    expected = model.predict(x, verbose=0)
    np.testing.assert_allclose(np.concatenate(found, 1)[there], expected[there], atol=1e-5)


def test_padding_the_chinese_sentence_does_not_change_the_outputs(model, parts):
    x, _ = parts["test"]
    wider = np.pad(x["chinese"], ((0, 0), (0, 3)))
    expected = model.predict(x, verbose=0)
    found = model.predict({**x, "chinese": wider}, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_exported_files_translate_like_the_keras_model(model, parts, monkeypatch):
    monkeypatch.setattr(translation, "STREAMED", 4)
    monkeypatch.setattr(translation, "CHECKED", 3)
    found = translation.measure(model, parts)
    assert (found["same"], found["failed"]) == (100, 0)
    assert 0 < found["difference"] < 1e-4
    assert found["beam_gain"] == pytest.approx(found["bleu"] - found["bleu_greedy"])
