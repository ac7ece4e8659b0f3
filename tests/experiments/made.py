"""A study that takes no time: a linear model of made-up numbers."""

import keras
import numpy as np

import keras_norm
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
    paper="None.",
    otherwise="Smaller: nothing.",
    work=Training(load, build, "mse", score, "error", higher=False),
    arms=arms({"line": 16}, ("none", "BN")),
    questions=(QUESTION,),
    full=SIZE,
    smoke=SIZE,
    minutes=2.0,
    scores={"error": ("error", 1, 3)},
)


def entry(error, seed=0, rate=1e-3, seconds=60.0):
    """What a run gives."""
    return {
        "ended": "validation",
        "best_round": 1,
        "test": {"error": error},
        "validation": {"error": error + rate},
        "history": {"error": [2.0, error]},
        "seconds": seconds,
    }
