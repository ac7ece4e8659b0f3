"""Translate Chinese characters into English words with LayerNorm LSTMs and attention.

`python -m examples.translation --pairs cmn.txt` trains for three minutes. The file has lines
"English<tab>Chinese", such as cmn.txt of manythings.org/anki.
"""

import argparse
import collections
import gzip
import os
import pathlib
import re

import keras
import numpy as np

import keras_norm
from keras_norm.export import check, export_saved_model, export_tflite, open_runner

UNITS, LONGEST, WORDS = 128, 8, 4000
UNKNOWN, START, END = 1, 2, 3  # ids of special tokens; 0 is padding
FILE = pathlib.Path(os.environ.get("KERAS_NORM_DATA", "."), "translation_cmn_eng", "cmn.txt.gz")


def load(path, samples=None):
    """Load pairs (list of Chinese characters, list of English words) for training and testing."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        pairs = [line.split("\t")[:2] for line in lines]
    split = ((list(zh), re.findall(r"[\w']+|[.?!,]", en.lower())) for en, zh in pairs)
    pairs = [(zh, en) for zh, en in split if len(en) <= LONGEST]
    order = np.random.default_rng(0).permutation(len(pairs))[:samples]
    return [pairs[i] for i in order[200:]], [pairs[i] for i in order[:200]]


def vocabulary(sentences):
    """Map each token that occurs twice or more to an id: 4, 5, 6 and so on."""
    counts = collections.Counter(token for sentence in sentences for token in sentence)
    return {t: i for i, (t, n) in enumerate(counts.most_common(WORDS), 4) if n > 1}


def encode(sentences, ids, first=(), last=()):
    """Convert sentences to ids (sentences, tokens), padded with zeros on the right."""
    rows = [[*first, *(ids.get(t, UNKNOWN) for t in s), *last] for s in sentences]
    return keras.utils.pad_sequences(rows, padding="post")


def build(characters, words):
    """Build a model that predicts an English word from the Chinese sentence and earlier words."""
    chinese, english = (keras.Input((None,), dtype="int32", name=n) for n in ("chinese", "english"))
    read = keras_norm.LayerNormLSTM(UNITS, return_sequences=True, return_state=True)
    encoded, *states = read(keras.layers.Embedding(characters, UNITS, mask_zero=True)(chinese))
    x = keras.layers.Embedding(words, UNITS, mask_zero=True)(english)
    x = keras_norm.LayerNormLSTM(UNITS, return_sequences=True)(x, initial_state=states)
    x = keras.layers.Concatenate()([x, keras.layers.Attention()([x, encoded])])
    outputs = keras.layers.Dense(words, "softmax", name="next")(keras.layers.Dropout(0.2)(x))
    return keras.Model([chinese, english], outputs, name="translation")


def translate(file, chinese, words):
    """Translate Chinese sentences with an exported file, one English word in each call."""
    english = np.full((len(chinese), 1), START, "int32")
    with open_runner(file) as run:
        for _ in range(LONGEST + 1):
            likely = run({"chinese": chinese, "english": english})["next"][:, -1].argmax(axis=-1)
            english = np.column_stack([english, likely.astype("int32")])
    return [" ".join(words.get(i, "_") for i in r[1 : [*r, END].index(END)]) for r in english]


def main(argv=None):
    """Train, export and check a model, and translate; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/translation"))
    parser.add_argument("--pairs", type=pathlib.Path, default=FILE)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, help="sentence pairs to use, > 200 (default: all)")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    try:
        train, test = load(args.pairs, args.samples)
        zh_ids, en_ids = (vocabulary(side) for side in zip(*train, strict=True))
    except Exception as error:  # a damaged file may raise any exception
        parser.error(f"{args.pairs} has no sentence pairs ({error}). See manythings.org/anki")
    x, x_test = (encode([zh for zh, _ in pairs], zh_ids) for pairs in (train, test))
    y, y_test = (encode([en for _, en in pairs], en_ids, [START], [END]) for pairs in (train, test))
    model = build(len(zh_ids) + 4, len(en_ids) + 4)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit([x, y[:, :-1]], y[:, 1:], 64, args.epochs, verbose=2)
    saved_model = export_saved_model(model, args.out / "saved_model", overwrite=True)
    tflite = export_tflite(model, args.out / "model.tflite", overwrite=True)
    report = check(model, [saved_model, tflite], {"chinese": x_test, "english": y_test[:, :-1]})
    report.print()
    translated = translate(tflite, x_test, {i: w for w, i in en_ids.items()})
    for (zh, en), guess in zip(test[:10], translated, strict=False):
        print(f"{''.join(zh)}  {guess}  ({' '.join(en)})")
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
