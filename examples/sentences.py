"""Classify questions with a LayerNorm GRU that takes text, and check its exported files.

`python -m examples.sentences` trains for one minute on the 5,452 questions of TREC. TFDS downloads
the data, or reads them from $KERAS_NORM_DATA/tfds. The SavedModel takes text. The TFLite file takes
the ids of words, and words.txt has a word on each line.
"""

import argparse
import collections
import os
import pathlib

import keras
import numpy as np
import tensorflow_datasets as tfds

import keras_norm
from keras_norm import export

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
    """Build a text classifier with the vocabulary `words`."""
    texts = keras.Input((), dtype="string", name="question")
    to_ids = keras.layers.TextVectorization(vocabulary=words, standardize="lower", name="words")
    x = keras.layers.Embedding(to_ids.vocabulary_size(), UNITS, mask_zero=True)(to_ids(texts))
    x = keras.layers.SpatialDropout1D(0.3)(x)
    x = keras_norm.LayerNormGRU(UNITS)(x)
    outputs = keras.layers.Dense(6, "softmax", name="kind")(keras.layers.Dropout(0.5)(x))
    return keras.Model(texts, outputs, name="questions")


def tokenize(texts, words):
    """Convert texts to the ids of `TextVectorization(standardize="lower")`, without Keras."""
    ids = {word.encode(): k for k, word in enumerate(words)}
    # bytes.lower() and TensorFlow both change only A to Z. Unknown words have the id 1.
    rows = [[ids.get(word, 1) for word in text.encode().lower().split()] for text in texts]
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


def main(argv=None):
    """Train, export and check a classifier; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/sentences"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, help="at most this many train and test questions")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    (questions, kinds), (test_questions, test_kinds) = load(args.samples)
    # Words that occur once become the unknown token, so that training includes this token.
    counts = collections.Counter(" ".join(questions).lower().split())
    model = build([word for word, n in counts.most_common(WORDS - 2) if n > 1])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    texts, test_texts = map(keras.ops.convert_to_tensor, (questions, test_questions))
    validation = (test_texts, test_kinds)
    model.fit(texts, kinds, 64, args.epochs, validation_data=validation, verbose=2)

    saved_model = export.export_saved_model(model, args.out / "saved_model", overwrite=True)
    preprocessing, core = export.split_text_model(model)
    tflite = export.export_tflite(core, args.out / "model.tflite", overwrite=True)
    files = export.write_vocabularies(preprocessing, args.out, overwrite=True)
    ids = tokenize(test_questions, files["words"].read_text("utf-8").split("\n"))
    reports = [
        export.check(model, saved_model, test_questions, labels=test_kinds),
        export.check(core, tflite, ids, labels=test_kinds),
    ]
    for report in reports:
        report.print()
    with export.open_runner(tflite) as run:
        difference = np.abs(run({"question": ids})["kind"] - model.predict(test_texts)).max()
    print(f"Outputs of the TFLite file and of the model differ by at most {difference:.1e}")
    return 0 if all(reports) and difference < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
