"""Generate text with an exported TFLite file, which predicts one character in each call.

`python -m examples.characters` trains an LN-GRU on Tiny Shakespeare, exports it and generates text,
in about four minutes. TFDS downloads the data, or reads them from $KERAS_NORM_DATA/tfds.
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
    """Load the training text, the test text, and a string of all characters in both texts."""
    folder = os.environ.get("KERAS_NORM_DATA")
    data_dir = folder and f"{folder}/tfds"
    try:
        parts = tfds.load("tiny_shakespeare", split=["train", "test"], data_dir=data_dir)
        train, test = (next(iter(tfds.as_numpy(part)))["text"].decode() for part in parts)
    except Exception as error:  # TFDS raises many classes of exceptions, so all are caught
        raise SystemExit(f"TFDS could not load tiny_shakespeare: {error}") from error
    return train, test, "".join(sorted(set(train + test)))


def cut(text, alphabet):
    """Cut a text into inputs (n, LENGTH) of character ids, and labels: the ids one step later."""
    index = {character: i for i, character in enumerate(alphabet)}
    ids = np.array([index[character] for character in text], "int32")
    end = (len(ids) - 1) // LENGTH * LENGTH
    return ids[:end].reshape(-1, LENGTH), ids[1 : end + 1].reshape(-1, LENGTH)


def build(size):
    """Build a model that predicts the next character at each timestep."""
    inputs = keras.Input((None,), dtype="int32", name="characters")
    x = keras.layers.Embedding(size, 32)(inputs)
    x = keras_norm.LayerNormGRU(UNITS, return_sequences=True)(x)
    return keras.Model(inputs, keras.layers.Dense(size, "softmax", name="next")(x), name="text")


def generate(file, step, alphabet, count):
    """Generate text with an exported file; each call takes a character and the recurrent states."""
    rng, character, text = np.random.default_rng(0), alphabet.index("\n"), ""
    states = step.initial_states(batch=1)
    with open_runner(file, signature_name="step") as run:
        for _ in range(count):
            outputs = run({"characters": np.array([character], "int32")} | states)
            states = {name: outputs[name] for name in states}
            sums = np.cumsum(outputs["next"][0], dtype="float64")
            character = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
            text += alphabet[character]
    return text


def main(argv=None):
    """Train a model, export and check it, and generate text; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/characters"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument(
        "--samples",
        type=int,
        help="use at most this many training and test sequences (default: all)",
    )
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    train, test, alphabet = load()
    parts = [cut(text, alphabet) for text in (train, test)]
    (x, y), (x_test, y_test) = ([a[: args.samples] for a in arrays] for arrays in parts)

    model = build(len(alphabet))
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    model.fit(x, y, 32, args.epochs, verbose=2)
    loss = model.evaluate(x_test, y_test, verbose=0)
    print(f"{loss / np.log(2):.2f} bits per character of the test text")
    saved_model = export_saved_model(model, args.out / "saved_model", overwrite=True)
    tflite = export_tflite(model, args.out / "model.tflite", overwrite=True)
    report = check(model, [saved_model, tflite], x_test[:64], labels=y_test[:64])
    report.print()
    print(generate(tflite, Step(model), alphabet, 300))
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
