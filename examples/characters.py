"""Write like Shakespeare, character by character, from a TFLite file that keeps its own states.

Tiny Shakespeare, which TFDS downloads (or finds in the folder `tfds` of the one that
KERAS_NORM_DATA names), trains an LN-GRU for some four minutes: `python -m examples.characters`.
"""

import argparse
import os
import pathlib

import keras
import numpy as np
import tensorflow_datasets as tfds

import keras_norm
from keras_norm.export import Step, check, export_saved_model, export_tflite, open_runner

LENGTH, UNITS = 100, 160


def load():
    """The text to train and to test with, and its alphabet."""
    folder = os.environ.get("KERAS_NORM_DATA")
    data_dir = folder and f"{folder}/tfds"
    try:
        parts = tfds.load("tiny_shakespeare", split=["train", "test"], data_dir=data_dir)
        train, test = (next(iter(tfds.as_numpy(part)))["text"].decode() for part in parts)
    except Exception as error:  # TFDS has many, of no common kind
        raise SystemExit(f"TFDS could not load tiny_shakespeare: {error}") from error
    return train, test, "".join(sorted(set(train + test)))


def pieces(text, alphabet):
    """A text in pieces, and the characters that follow each of theirs: twice (pieces, LENGTH)."""
    number = {character: i for i, character in enumerate(alphabet)}
    ids = np.array([number[character] for character in text], "int32")
    whole = (len(ids) - 1) // LENGTH * LENGTH
    return ids[:whole].reshape(-1, LENGTH), ids[1 : whole + 1].reshape(-1, LENGTH)


def build(size):
    """The probabilities of each next character."""
    inputs = keras.Input((None,), dtype="int32", name="characters")
    x = keras.layers.Embedding(size, 32)(inputs)
    x = keras_norm.LayerNormGRU(UNITS, return_sequences=True)(x)
    return keras.Model(inputs, keras.layers.Dense(size, "softmax", name="next")(x), name="text")


def write(file, step, alphabet, count):
    """A text drawn from a file: each call reads a character, and gives and takes the states."""
    rng, character, text = np.random.default_rng(0), alphabet.index("\n"), ""
    states = step.initial_states(batch=1)
    with open_runner(file, signature_name="step") as run:
        for _ in range(count):
            answer = run({"characters": np.array([character], "int32")} | states)
            states = {name: answer[name] for name in states}
            sums = np.cumsum(answer["next"][0], dtype="float64")
            character = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
            text += alphabet[character]
    return text


def main(argv=None):
    """Train, export, check and write; 0 when the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/characters"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--samples", type=int, help="how many pieces of each part; else all")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    train, test, alphabet = load()
    parts = [pieces(text, alphabet) for text in (train, test)]
    (x, y), (x_test, y_test) = ([a[: args.samples] for a in arrays] for arrays in parts)

    model = build(len(alphabet))
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    model.fit(x, y, 32, args.epochs, verbose=2)
    loss = model.evaluate(x_test, y_test, verbose=0)
    print(f"{loss / np.log(2):.2f} bits for each character of the test text")
    saved_model = export_saved_model(model, args.out / "saved_model", overwrite=True)
    tflite = export_tflite(model, args.out / "model.tflite", overwrite=True)
    report = check(model, [saved_model, tflite], x_test[:64], labels=y_test[:64])
    report.print()
    print(write(tflite, Step(model), alphabet, 300))
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
