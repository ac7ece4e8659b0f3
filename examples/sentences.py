"""Classify questions with a LayerNorm GRU over padded sentences, and check its exported files.

`python -m examples.sentences` trains for one minute on the 5,452 questions of TREC. TFDS downloads
the data, or reads them from $KERAS_NORM_DATA/tfds.
"""

import argparse
import collections
import os
import pathlib

import keras
import numpy as np
import tensorflow_datasets as tfds

import keras_norm
from keras_norm.export import check, export_saved_model, export_tflite

WORDS, UNITS = 4000, 64


def load(samples=None):
    """Load (questions, classes) for training and for testing; questions are strings."""
    folder = os.environ.get("KERAS_NORM_DATA")
    data_dir = folder and f"{folder}/tfds"
    try:
        parts = tfds.as_numpy(
            tfds.load("trec", split=["train", "test"], batch_size=-1, data_dir=data_dir)
        )
    except Exception as error:  # TFDS raises many classes of exceptions, so all are caught
        raise SystemExit(f"TFDS could not load trec: {error}") from error
    return [
        (
            np.array([text.decode() for text in part["text"][:samples]]),
            part["label-coarse"][:samples],
        )
        for part in parts
    ]


def build(words):
    """Build a classifier of word ids (batch, time), padded with zeros on the right."""
    inputs = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(words, UNITS, mask_zero=True)(inputs)
    x = keras.layers.SpatialDropout1D(0.3)(x)
    x = keras_norm.LayerNormGRU(UNITS)(x)
    outputs = keras.layers.Dense(6, "softmax", name="kind")(keras.layers.Dropout(0.5)(x))
    return keras.Model(inputs, outputs, name="questions")


def main(argv=None):
    """Train, export and check a classifier; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/sentences"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument(
        "--samples",
        type=int,
        help="use at most this many training and test questions (default: all)",
    )
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    (questions, kinds), (test_questions, test_kinds) = load(args.samples)
    tokenizer = keras.layers.TextVectorization(WORDS, standardize="lower")
    # Words that occur once become the unknown token, so that training includes this token.
    counts = collections.Counter(" ".join(questions).lower().split())
    tokenizer.set_vocabulary([word for word, n in counts.most_common(WORDS - 2) if n > 1])
    ids, test_ids = (np.array(tokenizer(texts), "int32") for texts in (questions, test_questions))

    model = build(tokenizer.vocabulary_size())
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(ids, kinds, 64, args.epochs, validation_data=(test_ids, test_kinds), verbose=2)
    files = [
        export_saved_model(model, args.out / "saved_model", overwrite=True),
        export_tflite(model, args.out / "model.tflite", overwrite=True),
    ]
    report = check(model, files, test_ids, labels=test_kinds)
    report.print()
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
