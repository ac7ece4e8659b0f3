"""Measure training on texts of unequal lengths, padded and packed in rows.

    python -m benchmarks.packing

Each text has a label: the loss is the cross entropy at its last word. An LN-LSTM trains on the same
texts in every form. All forms are measured in turn, in several rounds.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import keras
import numpy as np

import keras_norm
from keras_norm.typing import Array

TEXTS, WORDS, CLASSES, UNITS, ROUNDS = 1024, 1000, 5, 96, 7
MEDIAN, DEVIATION, LONGEST = 20, 0.7, 128  # of the numbers of words, log-normal
BATCH = 64

# Inputs, targets and the weights of the loss.
Batch: TypeAlias = tuple[list[Array], Array, Array]


def draw_texts() -> tuple[list[Array], Array]:
    """Draw token ids of unequal lengths, and a label for each text."""
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.normal(np.log(MEDIAN), DEVIATION, TEXTS)).astype(int).clip(1, LONGEST)
    texts = [rng.integers(1, WORDS, n) for n in lengths]
    return texts, rng.integers(0, CLASSES, TEXTS)


def pad(texts: Sequence[Array], labels: Array, *, is_sorted: bool) -> list[Batch]:
    """Pad each batch to its longest text; sorted texts have neighbors of similar length."""
    order = np.argsort([len(t) for t in texts], kind="stable") if is_sorted else range(TEXTS)
    batches = []
    for start in range(0, TEXTS, BATCH):
        chosen = list(order[start : start + BATCH])
        rows = keras.utils.pad_sequences([texts[k] for k in chosen], padding="post")
        lengths = np.array([len(texts[k]) for k in chosen])
        last = np.arange(rows.shape[1]) == lengths[:, None] - 1
        targets = np.broadcast_to(labels[chosen][:, None], rows.shape)
        batches.append(([rows, np.zeros_like(last)], targets, last))
    return batches


def pack(texts: Sequence[Array], labels: Array, rows: int) -> list[Batch]:
    """Pack the texts in rows of the longest length, a number of rows for each batch."""
    packed = keras_norm.pack_sequences(texts, LONGEST)
    by_word = [np.full(len(t), label) for t, label in zip(texts, labels, strict=True)]
    targets, batches = packed.pack(by_word), []
    for start in range(0, len(packed.rows) // rows * rows, rows):
        part = slice(start, start + rows)
        inputs = [packed.rows[part], packed.resets[part]]
        batches.append((inputs, targets[part], packed.is_last[part]))
    return batches


def build_model() -> keras.Model:
    """Create an Embedding with a mask, an LN-LSTM and a classifier of every timestep."""
    tokens = keras.Input((None,), dtype="int32")
    resets = keras.Input((None,), dtype="bool")
    y = keras.layers.Embedding(WORDS, 32, mask_zero=True)(tokens)
    y = keras_norm.LayerNormLSTM(UNITS, return_sequences=True)(y, resets=resets)
    model = keras.Model([tokens, resets], keras.layers.Dense(CLASSES)(y))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def measure(forms: dict[str, list[Batch]]) -> dict[str, list[float]]:
    """Return the texts per second of each form in every round, after one round without times."""
    trainers = {name: _trainer(batches) for name, batches in forms.items()}
    rounds = [{name: train() for name, train in trainers.items()} for _ in range(ROUNDS + 1)]
    return {name: [speeds[name] for speeds in rounds[1:]] for name in forms}


def _trainer(batches: list[Batch]) -> Callable[[], float]:
    """Return a function that trains a model on the batches once, and returns texts per second."""
    model, texts = build_model(), sum(int(last.sum()) for *_, last in batches)

    def train() -> float:
        start = time.perf_counter()
        for inputs, targets, last in batches:
            model.train_on_batch(inputs, targets, sample_weight=last)
        return texts / (time.perf_counter() - start)

    return train


def main() -> None:
    """Print a table of the shares of padding and of the speeds."""
    texts, labels = draw_texts()
    forms = {
        "padded": pad(texts, labels, is_sorted=False),
        "padded, sorted by length": pad(texts, labels, is_sorted=True),
        "packed, 16 rows": pack(texts, labels, 16),
        "packed, 64 rows": pack(texts, labels, 64),
    }
    speeds = measure(forms)
    print("| batches | padding | texts per update | texts per second, relative |")
    print("|---|---:|---:|---:|")
    for name, batches in forms.items():
        filled = np.mean([(rows > 0).mean() for (rows, _), *_ in batches])
        count = np.mean([last.sum() for *_, last in batches])
        pairs = zip(speeds[name], speeds["padded"], strict=True)
        ratio = np.median([speed / padded for speed, padded in pairs])
        print(f"| {name} | {1 - filled:.0%} | {count:.0f} | {ratio:.2f} |")
    print({name: [round(speed) for speed in of_rounds] for name, of_rounds in speeds.items()})


if __name__ == "__main__":
    main()
