"""Language models of characters, with an LSTM, an LN-LSTM, an LN-GRU and a BN-LSTM.

The task of Cooijmans et al. 2016 (arXiv 1603.09025), section 5.2: predict each next character of
the Penn Treebank; and of Tiny Shakespeare. A text is cut into streams that are read side by side,
piece by piece, and the states are carried from piece to piece; in the paper's code they are zeros
at the start of every piece. The test text is one stream. Statistics of every timestep count from
the start of a piece, so that a BN-LSTM is trained and tested in pieces of one length.

At the end the best models write a text, character by character: in Keras, and from their files by
the signature `step`. `small` learns from a million characters of each text, which is nearly all of
Tiny Shakespeare and a fifth of the Penn Treebank; `paper` from all.

Run with `python -m experiments.character_model`; --help tells what else there is.
"""

import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

import keras_norm
from experiments.harness import command, data, exporting, plots, tables
from experiments.harness.results import Entry, Results, Run
from experiments.harness.training import fit, load_best, slug
from keras_norm.export import Step, open_runner

SHAKESPEARE, PENN = "Tiny Shakespeare", "Penn Treebank"
PARTS = ("train", "validation", "test")
SAMPLES = 64  # pieces of the test text with which the exported models are checked


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a preset stands for.

    Attributes:
        characters: how many of each part of a text are read at most.
        units: size of the states.
        length: of a piece, in characters; gradients reach no further back.
        batch: how many streams the training text is cut into.
        epochs: passes over the training text.
        tasks: names of the texts.
        models: names of the models.
        seeds: how often all is repeated.
        exported: models whose best run on Tiny Shakespeare is exported and checked.
        generated: length of the texts that they write.
        learning_rate: of Adam.
    """

    characters: int
    units: int
    length: int
    batch: int
    epochs: int
    tasks: tuple[str, ...] = (PENN, SHAKESPEARE)
    models: tuple[str, ...] = ("LSTM", "LN-LSTM", "LN-GRU", "BN-LSTM")
    seeds: int = 1
    exported: tuple[str, ...] = ("LN-LSTM", "LN-GRU", "BN-LSTM")
    generated: int = 200
    learning_rate: float = 2e-3


PRESETS = {
    "smoke": Settings(
        characters=2000,
        units=16,
        length=10,
        batch=8,
        epochs=1,
        tasks=(SHAKESPEARE,),
        models=("LSTM", "BN-LSTM"),
        exported=("BN-LSTM",),
        generated=40,
    ),
    "small": Settings(
        characters=1_000_000, units=128, length=100, batch=32, epochs=6, learning_rate=5e-3
    ),
    "paper": Settings(characters=5_017_482, units=1000, length=100, batch=64, epochs=50),
}

# Without a norm, NormLSTM is Keras' LSTM in a form that TFLite takes.
LAYERS: dict[str, Callable[..., keras.layers.Layer]] = {
    "LSTM": lambda units, length, **options: keras_norm.NormLSTM(units, **options),
    "LN-LSTM": lambda units, length, **options: keras_norm.LayerNormLSTM(units, **options),
    "LN-GRU": lambda units, length, **options: keras_norm.LayerNormGRU(units, **options),
    "BN-LSTM": lambda units, length, **options: keras_norm.BatchNormLSTM(units, length, **options),
}

# Cooijmans et al. 2016: bits per character of the test text, by 1,000 units.
PAPER = {(PENN, "LSTM"): "1.38", (PENN, "BN-LSTM"): "1.32"}

COLUMNS = {
    "test_bits": tables.Column("test, bits per character", digits=3),
    "seconds": tables.Column("time, s", interval=False),
}


@dataclasses.dataclass(frozen=True)
class Text:
    """A text in numbers.

    Attributes:
        alphabet: its characters; a number is a place among them.
        parts: the numbers (characters,) of each of PARTS.
    """

    alphabet: str
    parts: dict[str, np.ndarray]


def load(asked: command.Command[Settings]) -> dict[str, Text]:
    """The texts by task."""
    texts = {}
    for task in asked.settings.tasks:
        parts = {part: READERS[task](part, asked.data) for part in PARTS}
        texts[task] = numbered(parts, asked.settings.characters)
    return texts


def _penn_treebank(part: str, folder: pathlib.Path | None) -> str:
    file = data.file("ptb", f"ptb.{part[:5]}.txt", folder)  # train, valid, test
    return character_form(file.read_text(encoding="utf-8"))


def _tiny_shakespeare(part: str, folder: pathlib.Path | None) -> str:
    return data.from_tfds("tiny_shakespeare", part, folder)["text"][0].decode()


READERS = {PENN: _penn_treebank, SHAKESPEARE: _tiny_shakespeare}


def character_form(words: str) -> str:
    """The Penn Treebank as characters: a sentence a line, with "_" for its spaces."""
    return "".join(f"{line.strip().replace(' ', '_')}\n" for line in words.splitlines())


def numbered(parts: dict[str, str], characters: int) -> Text:
    """The first characters of every part of a text in numbers, and the alphabet of all of it."""
    alphabet = "".join(sorted(set("".join(parts.values()))))
    number = {character: k for k, character in enumerate(alphabet)}
    cut_off = {part: text[:characters] for part, text in parts.items()}
    return Text(
        alphabet,
        {part: np.array([number[c] for c in text], "int32") for part, text in cut_off.items()},
    )


def cut(text: np.ndarray, streams: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """A text in pieces, with the character after each of theirs; what fills no batch is left out.

    Args:
        text: (characters,).
        streams: how many parts of the text stand side by side in a batch.
        length: of a piece.

    Returns:
        Twice (pieces, length): in the batch after its own, each stream goes on where it stopped.
    """
    pieces = (len(text) - 1) // (streams * length)

    def batches(characters: np.ndarray) -> np.ndarray:
        side_by_side = characters[: streams * pieces * length].reshape(streams, pieces, length)
        return side_by_side.swapaxes(0, 1).reshape(-1, length)

    return batches(text[:-1]), batches(text[1:])


def build(run: Run, text: Text, settings: Settings, streams: int | None = None) -> keras.Model:
    """A model that gives the probabilities of each next character.

    Args:
        run: which model.
        text: what it reads.
        settings: its sizes.
        streams: batch size of a model that carries its states from call to call; None makes one
            that starts from zeros.
    """
    size = len(text.alphabet)
    one_hot = keras.layers.Embedding(size, size, "identity", trainable=False)
    recurrent = LAYERS[run.model](
        settings.units,
        settings.length,
        kernel_initializer="orthogonal",
        return_sequences=True,
        stateful=streams is not None,
        name="recurrent",
    )
    softmax = keras.layers.Dense(size, "softmax", kernel_initializer="orthogonal", name="next")
    inputs = keras.Input(batch_shape=(streams, None), dtype="int32", name="characters")
    outputs = softmax(recurrent(one_hot(inputs)))
    return keras.Model(inputs, outputs, name=slug(f"{run.task}, {run.model}"))


@keras.saving.register_keras_serializable("keras_norm_examples")
def bits(characters: Any, probabilities: Any) -> Any:
    """The cross-entropy of each character to the base 2."""
    nats = keras.losses.sparse_categorical_crossentropy(characters, probabilities)
    return nats / math.log(2)


class FreshStates(keras.callbacks.Callback):
    """Lets a text begin with states of zeros: the training's in every epoch, the validation's."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Forget the end of the text, or of the validation text."""
        self.model.get_layer("recurrent").reset_state()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forget the training text."""
        self.model.get_layer("recurrent").reset_state()


def train(asked: command.Command[Settings], run: Run, text: Text) -> Entry:
    """Train one model; its curves, and its bits per test character after the best epoch."""
    settings = asked.settings
    keras.utils.set_random_seed(run.seed)
    model = build(run, text, settings, settings.batch)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0),
        "sparse_categorical_crossentropy",
        metrics=[bits],
    )
    curves = fit(
        model,
        *cut(text.parts["train"], settings.batch, settings.length),
        run=run,
        out=asked.out,
        monitor="val_loss",
        callbacks=(FreshStates(),),
        validation_data=cut(text.parts["validation"], settings.batch, settings.length),
        batch_size=settings.batch,
        epochs=settings.epochs,
        shuffle=False,
    )
    reader = build(run, text, settings, streams=1)
    reader.set_weights(model.get_weights())
    test = text.parts["test"]
    return {"test_bits": bits_per_character(reader, test, settings.length), "curves": curves}


def bits_per_character(model: keras.Model, text: np.ndarray, length: int) -> float:
    """Bits that each character of a text costs after all those before it; the first is given.

    Args:
        model: one that carries its states, with one stream and none of it read.
        text: (characters,).
        length: of the pieces that it reads; the last may be shorter.
    """
    read, expected = text[:-1], text[1:]
    whole = len(read) // length * length
    pieces = [read[:whole].reshape(-1, length), read[None, whole:]]
    probabilities = np.concatenate(
        [model.predict(piece, batch_size=1, verbose=0) for piece in pieces if piece.size], axis=None
    ).reshape(len(read), -1)
    return float(-np.log2(probabilities[np.arange(len(read)), expected].astype("float64")).mean())


# From all characters so far to the probabilities of the next.
Following = Callable[[list[int]], np.ndarray]


def generate(following: Following, alphabet: str, count: int, seed: int) -> str:
    """A text drawn from a model, the same for the same probabilities and seed; it starts a line.

    A character is the first at which the probabilities reach, summed, beyond a uniform number:
    rounding matters only where the number is within a hair's breadth of a sum.
    """
    characters = [alphabet.index("\n")]
    for share in np.random.default_rng(seed).random(count):
        sums = np.cumsum(following(characters), dtype="float64")
        characters.append(int(np.searchsorted(sums, share * sums[-1], side="right")))
    return "".join(alphabet[k] for k in characters[1:])


def in_keras(model: keras.Model) -> Following:
    """The model in Keras, which reads the text so far from its start for every character.

    A call counts timesteps from zero: carried states would meet the statistics of other timesteps.
    """
    return lambda characters: model.predict_on_batch(np.array([characters], "int32"))[0, -1]


def in_file(run: Callable[..., dict[str, np.ndarray]], step: Step) -> Following:
    """The signature `step` of a file, which reads one character and goes on from its states."""
    states = step.initial_states(batch=1)

    def following(characters: list[int]) -> np.ndarray:
        nonlocal states
        answer = run({"characters": np.array(characters[-1:], "int32")} | states)
        states = {name: answer[name] for name in states}
        return answer["next"][0]

    return following


def check(asked: command.Command[Settings], text: Text, run: Run) -> Entry:
    """Export the model of a run, check the files, and let the model and both files write a text."""
    settings = asked.settings
    model = build(run, text, settings)
    load_best(model, asked.out, run)
    samples, labels = (pieces[:SAMPLES] for pieces in cut(text.parts["test"], 1, settings.length))
    folder = asked.out / model.name
    entry = exporting.checked(model, samples, folder, labels)
    write = functools.partial(
        generate, alphabet=text.alphabet, count=settings.generated, seed=run.seed
    )
    texts = {"Keras": write(in_keras(model))}
    for file in (folder / "saved_model", folder / "model.tflite"):
        with open_runner(file, signature_name="step") as runner:
            texts[file.name] = write(in_file(runner, Step(model)))
    for writer, written in texts.items():
        print(f"\n{run.name}, {writer}:\n{written}")
    return {**entry, "generated": texts["Keras"], "same_text": len(set(texts.values())) == 1}


def main(argv: Sequence[str] | None = None) -> int:
    """Train every model; 0 when the best ones' files pass and write the text that Keras writes."""
    asked = command.parse("character_model", __doc__, PRESETS, argv)
    results = Results(asked)
    texts = load(asked)
    runs = [
        results.once("runs", run, functools.partial(train, asked, run, texts[run.task]))
        for seed in range(asked.seed, asked.seed + asked.settings.seeds)
        for run in (Run(task, model, seed) for task in texts for model in asked.settings.models)
    ]
    plots.curves(runs, "val_bits", asked.out / "curves.png", "validation, bits per character")
    checks = results.once_of_best(
        [run for run in runs if run["task"] == SHAKESPEARE],
        asked.settings.exported,
        functools.partial(check, asked, texts[SHAKESPEARE]),
        "val_bits",
        min,
    )
    tables.show("Characters", tables.header(COLUMNS), tables.rows(runs, COLUMNS))
    print(f"Results, models, TensorBoard's logs, exports and reports are in {asked.out}.")
    return 0 if all(entry["passed"] and entry["same_text"] for entry in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
