"""A fast study of a linear model on random numbers, and small text files."""

import keras
import numpy as np

import keras_norm
from experiments import skip_thoughts
from experiments.harness import data, penn_treebank, sentences
from experiments.harness.study import Question, Size, Study, Training, arms

RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 4)).astype("float32")
Y = (X @ RNG.normal(size=(4, 1))).astype("float32")
PARTS = {"training": (X[:64], Y[:64]), "validation": (X[64:80], Y[64:80]), "test": (X[80:], Y[80:])}
SIZE = Size(None, 32, 4, patience=2, seeds=2, rates=(1e-3, 3e-2))


def load(task, samples, folder):
    return PARTS


def build(arm, parts):
    norm = [keras_norm.BatchNormalization()] if arm.model == "BN" else []
    layers = [keras.Input((4,)), keras.layers.Dense(3), *norm, keras.layers.Dropout(0.2)]
    return keras.Sequential([*layers, keras.layers.Dense(1)])


def score(outputs, targets):
    return {"error": float(np.mean((outputs - targets) ** 2))}


QUESTION = Question(2, "BN is better", "error", (("line", "none"),), (("line", "BN"),), digits=3)

STUDY = Study(
    name="made",
    title="A line",
    question="Which model is better?",
    paper="None.",
    differences="Nothing is smaller.",
    work=Training(load, build, "mse", score, "error", maximize=False),
    arms=arms({"line": 16}, ("none", "BN")),
    questions=(QUESTION,),
    full=SIZE,
    smoke=SIZE,
    scores={"error": ("error", 1, 3)},
)


def entry(error, rate=1e-3):
    """Return the results of a run."""
    return {
        "ended": "validation",
        "best_round": 1,
        "updates": 3,
        "epoch": 6.0,
        "test": {"error": error},
        "validation": {"error": error + rate},
        "history": {"error": [2.0, error]},
        "seconds": 60.0,
    }


SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    '1\tA "dog" runs\tA cat sits\t2.5\tNEUTRAL\n'
    "2\tTwo men\tNo men\t4\tCONTRADICTION\n"
)


def texts(folder, monkeypatch):
    """Write a text of numbered sentences, and the tasks of skip-thoughts."""
    for name in ("ptb", "sick", "sentence_classification"):
        (folder / name).mkdir()
    lines = "".join(f" number {k} is <unk> \n" for k in range(20))
    monkeypatch.setattr(data, "SIZES", {})
    for name in penn_treebank.FILES.values():
        (folder / "ptb" / name).write_text(lines)
    for name in skip_thoughts.SICK.values():
        (folder / "sick" / name).write_text(SICK)
    for name in sentences.FILES.values():
        lines = "".join(f"{k % 2} number {k}\n" for k in range(20))
        (folder / "sentence_classification" / name).write_text(lines)
