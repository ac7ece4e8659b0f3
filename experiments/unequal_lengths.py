"""Sequences of unequal lengths, padded, and recurrent BatchNorm: claim 17."""

import itertools
import pathlib

import keras
import numpy as np

import keras_norm
from experiments import convolutional
from experiments.harness import metrics, sentences
from experiments.harness.study import (
    Arm,
    Parts,
    Question,
    SampleScores,
    Size,
    Study,
    Training,
    arms,
)

GESTURES, QUESTIONS = "gestures", "questions"
ONE_LENGTH, RANDOM = f"{GESTURES}, one length", f"{GESTURES}, random lengths"
CLASSES = {GESTURES: 20, RANDOM: 20, ONE_LENGTH: 20, QUESTIONS: 6}
UNITS, BATCH, UPDATES = 32, 32, 960
STEPS = 25  # timesteps of the longest gesture, after every second one is left out
SHORTEST = 5  # timesteps of the shortest gesture of random length; the longest have 2 * STEPS
WORDS, LONGEST = 3000, 40  # size of the vocabulary, words of a question

LSTM, LN, BN, EVERY = "LSTM", "LN-LSTM", "BN-LSTM", "BN-LSTM, min_sequences=2"

# The recurrent layer of each model, from the number of timesteps.
LAYERS = {
    LSTM: lambda steps: keras_norm.NormLSTM(UNITS),
    LN: lambda steps: keras_norm.LayerNormLSTM(UNITS),
    BN: lambda steps: keras_norm.BatchNormLSTM(UNITS, steps),
    EVERY: lambda steps: keras_norm.BatchNormLSTM(UNITS, steps, min_sequences=2),
}


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load gestures (samples, STEPS, 3) or word ids (samples, words), and their classes.

    Both are padded with zeros on the right, except the gestures of one length. The training part
    repeats its samples, so that it is one round.
    """
    if task == QUESTIONS:
        corpus = sentences.prepare("TREC", folder, "words", WORDS, None)
        parts = {
            part: (x[:samples, :LONGEST], y[:samples]) for part, (x, y) in corpus.parts.items()
        }
    else:
        read = convolutional.load(convolutional.GESTURES, samples, folder)
        parts = {part: (x[:, ::2], y) for part, (x, y) in read.items()}
    rng = np.random.default_rng(0)
    if task == ONE_LENGTH:
        parts = {part: (stretch(x, np.full(len(x), STEPS)), y) for part, (x, y) in parts.items()}
    elif task == RANDOM:
        parts = {
            part: (stretch(x, rng.integers(SHORTEST, 2 * STEPS + 1, len(x))), y)
            for part, (x, y) in parts.items()
        }
    x, y = parts["training"]
    rows = np.resize(np.arange(len(x)), samples or BATCH * UPDATES)
    return {**parts, "training": (x[rows], y[rows]), "learned": (x, y)}


def stretch(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Interpolate padded series (samples, timesteps, axes) to other lengths, and pad them."""
    time, stretched = np.arange(x.shape[1]), np.zeros((len(x), max(lengths), x.shape[2]), x.dtype)
    before = np.sum(np.any(x != 0, axis=-1), axis=-1)
    for new, old, n, length in zip(stretched, x, before, lengths, strict=True):
        at = np.linspace(0, n - 1, length)
        new[:length] = np.stack([np.interp(at, time, axis) for axis in old.T], axis=1)
    return stretched


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a classifier of the last state of a recurrent layer."""
    x, _ = parts["training"]
    layers: list[keras.layers.Layer]
    if arm.task == QUESTIONS:
        inputs = keras.Input((None,), dtype="int32", name="words")
        layers = [inputs, keras.layers.Embedding(WORDS, UNITS, mask_zero=True)]
    else:
        layers = [keras.Input(x.shape[1:], name="x")]
        layers += [] if arm.task == ONE_LENGTH else [keras.layers.Masking()]
    softmax = keras.layers.Dense(CLASSES[arm.task], "softmax", name="class")
    return keras.Sequential([*layers, LAYERS[arm.model](x.shape[1]), softmax])


def on_training_data(model: keras.Model, parts: Parts) -> SampleScores:
    """Return the accuracy on the training data, as at inference."""
    x, y = parts["learned"]
    found = model.predict(x, batch_size=256, verbose=0).argmax(axis=-1)
    return {"training_accuracy": float(np.mean(found == y))}


def _points(statement: str, task: str, plus: str, minus: str, score: str = "accuracy") -> Question:
    return Question(
        17,
        f"{statement} ({task})",
        score,
        ((task, plus),),
        ((task, minus),),
        threshold=2.0,
        scale=100,
        unit="points of accuracy",
    )


def _questions(task: str) -> tuple[Question, ...]:
    better, training = "8 sequences are better than 2", "training_accuracy"
    return (
        _points("with min_sequences=2, BatchNorm ends worse than no norm", task, LSTM, EVERY),
        _points(better, task, BN, EVERY),
        _points(f"{better} on the training data", task, BN, EVERY, training),
        _points("BatchNorm ends better than no norm", task, BN, LSTM),
    )


STUDY = Study(
    name="unequal_lengths",
    title="Sequences of unequal lengths",
    question="Few sequences of a padded batch reach its last timesteps, and recurrent BatchNorm "
    "has statistics for each timestep. Does that cost accuracy, and does `min_sequences` help?",
    paper="No paper. Cooijmans et al. 2016 train on sequences of one length.",
    differences=f"Smaller: LSTMs of {UNITS} units learn for {UPDATES} updates of {BATCH} "
    "sequences, with a mask. The gestures come from smartwatch_gestures. Every second timestep is "
    f"left out: half of the gestures have 11 timesteps or fewer, and the longest have {STEPS}. "
    "The test set has people that the model never met. In two further tasks the same gestures are "
    f"interpolated to random lengths of {SHORTEST} to {2 * STEPS} timesteps, or to one length of "
    f"{STEPS}. The questions are those of TREC: half have 10 words "
    f"or fewer, and the longest {LONGEST}. `min_sequences` is 8 by default. With 2, every timestep "
    "of two or more sequences has statistics of its own. Earlier revisions used moving statistics "
    "for a single sequence, and were [between the two](../design/few_sequences.md). "
    "Batch statistics are recomputed before each score. Two points of accuracy count.",
    revisions="There were three seeds at first, which left most questions about the gestures open. "
    "The gestures of random lengths were added then.",
    work=Training(
        load,
        build,
        "sparse_categorical_crossentropy",
        metrics.classes,
        "accuracy",
        recalibrated=True,
        measure=on_training_data,
    ),
    arms=(
        *arms(dict.fromkeys((GESTURES, RANDOM, QUESTIONS), BATCH), (LSTM, LN, BN, EVERY)),
        *arms({ONE_LENGTH: BATCH}, (LSTM, BN)),
    ),
    questions=(
        *itertools.chain(*map(_questions, (GESTURES, RANDOM, QUESTIONS))),
        _points("BatchNorm ends better than no norm", ONE_LENGTH, BN, LSTM),
    ),
    full=Size(None, BATCH * UPDATES, 1, patience=1, seeds=5, rates=(3e-3, 1e-2)),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(3e-3,)),
    scores={
        "training_accuracy": ("accuracy on training data, %", 100, 1),
        "accuracy": ("test accuracy, %", 100, 1),
        "nll": ("test nll, nats", 1, 3),
    },
)
