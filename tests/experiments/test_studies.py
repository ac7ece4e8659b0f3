"""Each study runs at its smoke size and returns the scores of its questions and table."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from experiments import (
    characters,
    click_through_rate,
    conversion,
    convolutional,
    covariate_shift,
    draw,
    few_features,
    first_batch,
    handwriting,
    lengths,
    movielens,
    noise,
    order_embeddings,
    pixels,
    recurrences,
    scales,
    translation,
    unbalanced,
)
from experiments.__main__ import STUDIES
from experiments.harness import data, mnist, translation_pairs, translators
from experiments.harness.results_file import ResultsFile
from experiments.harness.run_scores import EPOCHS
from experiments.harness.runs import chosen_runs, run_study
from experiments.harness.study import Arm
from tests.experiments import toy_study

# One arm of a study: the one with the most features, or one that compiles fast; else the first.
ARMS = {
    "scales": ("scales", "BN"),
    "recurrences": ("gain 2", "LN-GRU"),
    "covariate_shift": ("MNIST, two hidden layers", "whitening"),
    "first_batch": ("in order", "BN-LSTM from noise"),
    "unbalanced": ("1 in 100, batch 8", "BN"),
    "rare_questions": ("1 in 50, batch 8", "GRU"),
    "noise": ("1,000 digits", "BN by 16"),
    "conversion": ("TREC questions", "LN-LSTM, fitted scales"),
    "few_features": ("gestures, 1 feature", "Dense, LN-LSTM"),
    "unequal_lengths": ("gestures, random lengths", "LSTM"),
    "click_through_rate": ("Frappe", "LN; embeddings and hidden"),
    "movielens": ("MovieLens", "LN; embeddings and hidden"),
    "online_ratings": ("MovieLens, batch 1, one pass", "LN; embeddings and hidden"),
    "permutation_invariant": ("batch 4", "BN"),
    "convolutional": ("gestures", "LN"),
    "translation": ("BPE", "LN-LSTM"),
    "lengths": ("copying", "LSTM"),
    "handwriting": ("Kanji, batch 8", "LN-LSTM"),
}
RNG = np.random.default_rng(0)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return a data folder with synthetic data for every study."""
    made = (RNG.integers(0, 256, (400, 28, 28, 1), "uint8"), RNG.choice([4, 9], 400))
    parts = dict.fromkeys(("training", "validation", "test"), made)
    monkeypatch.setattr(mnist, "_read", lambda folder: parts)
    rows = [
        {
            "features": {axis: RNG.normal(size=9) for axis in convolutional.AXES},
            "gesture": k % 20,
            "participant": 1 + k % 5,
        }
        for k in range(60)
    ]
    monkeypatch.setattr(data, "rows_from_tfds", lambda *_: rows)
    texts = np.array([f"what is number {k % 9} ?".encode() for k in range(300)], object)
    questions = {"text": texts, "label-coarse": np.arange(300) % 6}
    play = "\n\n".join(f"{'AB'[k % 2]}:\nspeech {k}" for k in range(300))
    texts = {"trec": questions, "tiny_shakespeare": {"text": np.array([play.encode()])}}
    monkeypatch.setattr(data, "from_tfds", lambda name, *_: texts[name])
    made = (RNG.integers(0, 50, (90, 10)), RNG.integers(0, 2, 90))
    monkeypatch.setattr(click_through_rate, "rows", lambda path: made)
    kanji = [RNG.integers(-9, 9, (n, 3)) for n in (2, 3, 4, 9)] * 4
    monkeypatch.setattr(handwriting, "drawings", lambda *_: kanji)
    views = [f"字{k}" for k in range(96)], [f"letter {k}" for k in range(96)]
    monkeypatch.setattr(order_embeddings, "translations", lambda path: views)
    times = np.arange(90)  # the last rating of each user tests; labels alternate
    fields = np.column_stack([times % 9, RNG.integers(0, 9, (90, 3))]).astype(str)
    rated = (fields, times % 2, times)
    monkeypatch.setattr(movielens, "read_ratings", lambda path: rated)
    letters = [(f"The letter {k}.", f"字母{k}。") for k in range(96)]
    monkeypatch.setattr(translation_pairs, "read", lambda folder: letters)
    monkeypatch.setattr(translation, "exported", lambda *_: {"same": 100.0})
    monkeypatch.setattr(characters, "text", lambda *_: "".join(RNG.choice(list("abc\n"), 3000)))
    toy_study.texts(tmp_path, monkeypatch)
    monkeypatch.setattr(data, "file", lambda name, file, folder: folder / name / file)
    return tmp_path


# These studies run many updates or timesteps, so traced functions take less time than eager ones.
TRACED = (
    "characters",
    "online",
    "online_ratings",
    "unbalanced",
    "permutation_invariant",
)


@pytest.fixture
def run_eagerly():
    """Run `tf.function`s eagerly: at the smoke size, to trace them takes most of the time."""
    yield lambda: tf.config.run_functions_eagerly(True)
    tf.config.run_functions_eagerly(False)


@pytest.mark.filterwarnings("ignore:Even though .*run_functions_eagerly:UserWarning")
@pytest.mark.parametrize(
    "name", sorted(STUDIES.keys() - {"shakespeare"})
)  # has the code of characters
def test_a_study_runs_at_its_smoke_size(name, folder, monkeypatch, run_eagerly):
    if name not in TRACED:
        run_eagerly()
    for module in (scales, recurrences):
        monkeypatch.setattr(module, "STEPS", 5)
    monkeypatch.setattr(covariate_shift, "UPDATES", 2)
    monkeypatch.setattr(covariate_shift, "EVERY", 1)
    monkeypatch.setattr(lengths, "LENGTH", 10)
    monkeypatch.setattr(lengths, "LONGER", (20, 400))
    monkeypatch.setattr(pixels, "PIXELS", 12)
    monkeypatch.setattr(first_batch, "UPDATES", 2)
    for name_of, small in {"UNITS": 4, "LONGEST": 4, "TRAINED": 1}.items():
        monkeypatch.setattr(conversion, name_of, small)
    for name_of, small in {"UNITS": 4, "BLOCK": 400, "STREAM": 10}.items():
        monkeypatch.setattr(characters, name_of, small)
    for name_of, small in {"LONGEST": 4, "UNITS": 4, "DEEP": 1, "SHOWN": 2}.items():
        monkeypatch.setattr(handwriting, name_of, small)
    for name_of, small in {"GLIMPSES": 2, "UNITS": 4}.items():
        monkeypatch.setattr(draw, name_of, small)
    monkeypatch.setitem(translators.LAYERS, "LN-LSTM", keras.layers.LSTM)  # fast to trace
    monkeypatch.setattr(translation, "WIDTH", 1)
    study = STUDIES[name]
    arm = study.arm(*ARMS[name]) if name in ARMS else study.arms[0]
    small = dataclasses.replace(study, arms=(arm,), questions=())
    if name == "convolutional":  # permutation_invariant covers XLA
        small = dataclasses.replace(small, work=dataclasses.replace(study.work, compiled=False))
    results = ResultsFile(folder / "results.json", small, small.smoke)
    run_study(small, small.smoke, results, folder, folder)
    (runs,) = chosen_runs(small, small.smoke, results).values()
    asked = [q for q in study.questions if (arm.task, arm.model) in (*q.plus, *q.minus)]
    scores = {question.score for question in asked} - {EPOCHS}
    assert scores <= set(runs[0]["test"] if study.full.seeds > 1 else runs[0]["samples"])
    assert set(runs[0]["test"]) & set(study.scores)
    assert np.isfinite(list(runs[0]["test"].values())).all()


def test_batch_norm_removes_feature_scales_and_layer_norm_sample_scales():
    bn, ln = (scales.measure(Arm(scales.SCALES, norm), 0) for norm in ("BN", "LN"))
    assert bn["features"] == 0.0
    assert ln["samples"] == 0.0
    assert min(bn["samples"], ln["features"]) > 0.5


def test_whitened_features_are_uncorrelated():
    x = (RNG.normal(size=(200, 4)) @ RNG.normal(size=(4, 4))).astype("float32")
    y = np.array(covariate_shift.Whitening(0.9, epsilon=1e-6)(x, training=True))
    np.testing.assert_allclose(np.cov(y.T, bias=True), np.eye(4), atol=1e-2)


def test_the_target_of_addition_is_the_sum_of_the_marked_numbers():
    x, y = lengths.sequences(lengths.ADDITION, 12, 5, RNG)
    numbers, marks = x[..., 0], x[..., 1]
    np.testing.assert_array_equal(marks[:, :6].sum(axis=1), np.ones(5))
    np.testing.assert_array_equal(marks[:, 6:].sum(axis=1), np.ones(5))
    np.testing.assert_allclose((numbers * marks).sum(axis=1), y[:, 0], rtol=1e-6)


def test_the_target_of_copying_is_the_marked_symbol():
    x, y = lengths.sequences(lengths.COPYING, 12, 5, RNG)
    np.testing.assert_array_equal(x[:, 0, :-1], y)
    np.testing.assert_array_equal(x[..., -1], np.eye(12)[[0] * 5])


@pytest.mark.parametrize(("share", "samples", "nines"), [(0.5, None, 100), (0.01, 200, 2)])
def test_the_rare_class_has_its_share_of_the_samples(share, samples, nines):
    classes = np.array([9] * 100 + [4] * 300)
    x = np.arange(400)
    rows, labels = unbalanced.share_of(9, 4, (x, classes), share, samples)
    assert labels.sum() == nines
    assert len(rows) == (nines / share)
    np.testing.assert_array_equal(classes[rows] == 9, labels == 1)


def test_the_gap_is_the_test_nll_minus_the_training_nll():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Activation("linear")(inputs))
    right = {"training": 0.9, "test": 0.5}
    parts = {k: (np.tile([p, 1 - p], (3, 1)), np.zeros(3, int)) for k, p in right.items()}
    assert noise.gap(model, parts) == {"gap": pytest.approx(np.log(0.9 / 0.5), rel=1e-6)}


def test_the_sensors_of_waves_have_different_gains_and_offsets():
    x, classes = few_features.waves(2000, RNG)
    assert set(classes) == {0, 1, 2, 3}
    np.testing.assert_allclose(
        np.median(x[classes < 2], axis=(0, 1)), few_features.OFFSETS, atol=0.1
    )
    large, small = (x[classes == k].std(axis=(0, 1)) for k in (1, 0))
    assert (large > small).all()


def test_derived_features_are_axes_length_and_differences():
    x = np.zeros((1, 3, 3))
    x[0, :2] = [[3, 4, 0], [0, 0, 2]]  # one timestep is padding
    np.testing.assert_allclose(
        few_features.derived_features(x)[0],
        [[3, 4, 0, 5, 0, 0, 0, 0], [0, 0, 2, 2, -3, -4, 2, -3], [0] * 8],
    )
