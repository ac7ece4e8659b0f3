"""Sentence classification with a GRU, an LN-GRU and a BN-GRU: short training, longer testing.

Questions by what they ask for (TREC), film reviews (MR, SST), reviews of products (CR) and phrases
(MPQA) by their opinion, and subjective against objective sentences (SUBJ). All train on the first
20 words of each sentence, and are tested on these and on whole sentences: a recurrent BatchNorm
has no statistics of later words, and takes those of the last that it has. Further tasks are other
batch sizes, of 400 questions, and characters or subwords in place of words, which `small` tries
with an LN-GRU from one seed. A batch of 1 has no statistics, and no BatchNorm is trained with it.

The papers cross-validate MR, CR, SUBJ and MPQA in ten folds; here one tenth drawn at random is for
testing and one for validation, the same for every seed. Embeddings are learned from nothing,
and `paper` is a larger setting of ours: the LN paper classifies skip-thought vectors instead.
`small` learns from 4,000 sentences of a dataset at most.

Run with `python -m experiments.sentence_classification`; --help tells what else there is.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence

import keras
import numpy as np

import keras_norm
from experiments.harness import command, exporting, plots, tables
from experiments.harness.results import Entry, Results, Run
from experiments.harness.sentences import DATASETS, Corpus, prepare
from experiments.harness.training import compiled, fit, load_best, slug, started

SAMPLES = 256  # with which the exported models are checked
FEWEST = 20  # longer sentences whose accuracy is worth telling

# Without a norm, NormGRU is Keras' GRU in a form that TFLite takes.
LAYERS: dict[str, Callable[..., keras.layers.Layer]] = {
    "GRU": lambda units, steps, **options: keras_norm.NormGRU(units, **options),
    "LN-GRU": lambda units, steps, **options: keras_norm.LayerNormGRU(units, **options),
    "BN-GRU": lambda units, steps, **options: keras_norm.BatchNormGRU(units, steps, **options),
}

# Ba et al. 2016: accuracy in % of a linear classifier on skip-thought vectors.
PAPER = {
    ("MR", "GRU"): "77.3",
    ("MR", "LN-GRU"): "79.5",
    ("CR", "GRU"): "81.8",
    ("CR", "LN-GRU"): "82.6",
    ("SUBJ", "GRU"): "92.6",
    ("SUBJ", "LN-GRU"): "93.4",
    ("MPQA", "GRU"): "87.9",
    ("MPQA", "LN-GRU"): "89.0",
}

COLUMNS = {
    "test_accuracy": tables.Column("test accuracy, %", 100, 1),
    "test_accuracy_cut": tables.Column("cut as in training, %", 100, 1),
    "test_accuracy_long": tables.Column("longer sentences, %", 100, 1),
    "test_accuracy_long_cut": tables.Column("the longer ones cut, %", 100, 1),
    "seconds": tables.Column("time, s", interval=False),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What is learned, and how.

    Attributes:
        name: for a person.
        dataset: one of DATASETS.
        seeds: how often it is repeated.
        epochs: passes over the training sentences.
        tokens: "words", "characters" or "subwords".
        length: tokens of each sentence to train on.
        batch: how many sentences an update takes.
        training: how many sentences there are to learn from; None for all.
        models: of LAYERS.
    """

    name: str
    dataset: str
    seeds: int
    epochs: int
    tokens: str = "words"
    length: int = 20
    batch: int = 64
    training: int | None = None
    models: tuple[str, ...] = tuple(LAYERS)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a preset stands for.

    Attributes:
        tasks: the first of them is the one whose models are exported.
        units: size of the states.
        embedding: size of a token's vector.
        vocabulary: how many tokens there are at most.
        exported: models whose best run on the first task is exported and checked.
        dropout: share of the last state that is dropped in training.
        learning_rate: of Adam.
    """

    tasks: tuple[Task, ...]
    units: int
    embedding: int
    vocabulary: int
    exported: tuple[str, ...] = tuple(LAYERS)
    dropout: float = 0.5
    learning_rate: float = 2e-3


def _tasks(
    training: int | None,
    epochs: int,
    batch_epochs: int,
    token_seeds: int,
    token_models: tuple[str, ...],
) -> tuple[Task, ...]:
    """Every dataset and every batch size from five seeds, then tokens.

    Args:
        training: how many sentences of each dataset there are to learn from; None for all.
        epochs: for words and subwords; twice as many for characters.
        batch_epochs: for every batch size, where there are few sentences.
        token_seeds: seeds for every kind of token.
        token_models: the models that read them.
    """
    return (
        *(Task(name, name, seeds=5, epochs=epochs, training=training) for name in DATASETS),
        *(
            Task(
                f"TREC, batch {batch}",
                "TREC",
                seeds=5,
                epochs=batch_epochs,
                batch=batch,
                training=400,
                models=models,
            )
            for batch, models in (
                (32, tuple(LAYERS)),
                (2, tuple(LAYERS)),
                (1, ("GRU", "LN-GRU")),
            )
        ),
        *(
            Task(
                f"TREC, {tokens}",
                "TREC",
                token_seeds,
                passes,
                tokens,
                length,
                training=training,
                models=token_models,
            )
            for tokens, length, passes in (
                ("subwords", 25, epochs),
                ("characters", 100, 2 * epochs),
            )
        ),
    )


PRESETS = {
    "smoke": Settings(
        (Task("CR", "CR", seeds=2, epochs=1, training=256, models=("BN-GRU",)),),
        units=8,
        embedding=8,
        vocabulary=500,
        exported=(),
    ),
    "small": Settings(
        _tasks(4000, epochs=2, batch_epochs=3, token_seeds=1, token_models=("LN-GRU",)),
        units=48,
        embedding=48,
        vocabulary=5000,
        exported=("LN-GRU", "BN-GRU"),
    ),
    "paper": Settings(
        _tasks(None, epochs=25, batch_epochs=50, token_seeds=5, token_models=tuple(LAYERS)),
        units=300,
        embedding=300,
        vocabulary=20000,
        learning_rate=1e-3,
    ),
}


def corpus_of(asked: command.Command[Settings], task: Task) -> Corpus:
    """The sentences of a task."""
    vocabulary = asked.settings.vocabulary
    return prepare(task.dataset, asked.data, task.tokens, vocabulary, task.training)


def build(
    settings: Settings, vocabulary: int, classes: int, length: int, model: str
) -> keras.Model:
    """A compiled classifier of sentences of any length.

    Args:
        settings: its sizes.
        vocabulary: how many tokens there are.
        classes: how many classes there are.
        length: of the sentences that it is trained on.
        model: one of LAYERS.
    """
    inputs = keras.Input((None,), dtype="int32", name="tokens")
    embedding = keras.layers.Embedding(vocabulary, settings.embedding, mask_zero=True)
    hidden = LAYERS[model](settings.units, length, name="gru")(embedding(inputs))
    hidden = keras.layers.Dropout(settings.dropout)(hidden)
    outputs = keras.layers.Dense(classes, activation="softmax", name="class")(hidden)
    classifier = keras.Model(inputs, outputs, name=slug(model))
    return compiled(classifier, keras.optimizers.Adam(settings.learning_rate))


def arguments_of(
    settings: Settings, task: Task, corpus: Corpus, model: str
) -> tuple[Settings, int, int, int, str]:
    """What `build` makes the model of a task from."""
    return settings, corpus.vocabulary, corpus.classes, task.length, model


def train(asked: command.Command[Settings], task: Task, run: Run, corpus: Corpus) -> Entry:
    """Train a model from a seed; its curves, and its accuracies after the best epoch.

    Of the test sentences: whole, cut at the length of training; and of the longer ones alone, both
    again, or None where they are too few.
    """
    arguments = arguments_of(asked.settings, task, corpus, run.model)
    model = started(build, *arguments, seed=run.seed)
    cut = {name: (ids[:, : task.length], c) for name, (ids, c) in corpus.parts.items()}
    curves = fit(
        model,
        *cut["training"],
        run=run,
        out=asked.out,
        monitor="val_accuracy",
        validation_data=cut["validation"],
        validation_batch_size=500,
        batch_size=task.batch,
        epochs=task.epochs,
    )
    ids, classes = corpus.parts["test"]
    within = np.arange(ids.shape[1]) < task.length
    # Zeros cut as well, and the model is traced for one width.
    right, right_cut = (
        model.predict(tokens, batch_size=500, verbose=0).argmax(axis=-1) == classes
        for tokens in (ids, ids * within)
    )
    longer = ids[:, ~within].any(axis=1)
    enough = longer.sum() >= FEWEST
    return {
        "test_accuracy": float(right.mean()),
        "test_accuracy_cut": float(right_cut.mean()),
        "test_accuracy_long": float(right[longer].mean()) if enough else None,
        "test_accuracy_long_cut": float(right_cut[longer].mean()) if enough else None,
        "long": int(longer.sum()),
        "curves": curves,
    }


def check(asked: command.Command[Settings], task: Task, corpus: Corpus, run: Run) -> Entry:
    """Export the model of a run beside its tokenizer, and check the files with test sentences."""
    ids, classes = (array[:SAMPLES] for array in corpus.parts["test"])
    model = build(*arguments_of(asked.settings, task, corpus, run.model))
    load_best(model, asked.out, run)
    folder = asked.out / slug(f"{task.name}, {run.model}")
    entry = exporting.checked(model, ids, folder, classes)
    corpus.tokenizer.save(str(folder / "tokenizer.json"))
    return entry


def main(argv: Sequence[str] | None = None) -> int:
    """Train every model on every task; 0 when the exports of the best ones pass the check."""
    asked = command.parse("sentence_classification", __doc__, PRESETS, argv)
    results = Results(asked)
    corpora = {task.name: corpus_of(asked, task) for task in asked.settings.tasks}
    runs = []
    for task in asked.settings.tasks:
        corpus = corpora[task.name]
        for model in task.models:
            for seed in range(asked.seed, asked.seed + task.seeds):
                run = Run(task.name, model, seed)
                measure = functools.partial(train, asked, task, run, corpus)
                runs.append(results.once("runs", run, measure))
    shown = [run for run in runs if run["task"] in DATASETS]
    plots.curves(shown, "val_accuracy", asked.out / "curves.png", "validation accuracy, %", 100)
    first = asked.settings.tasks[0]
    checks = results.once_of_best(
        [run for run in runs if run["task"] == first.name],
        asked.settings.exported,
        functools.partial(check, asked, first, corpora[first.name]),
        "val_accuracy",
    )
    tables.show("Sentences", tables.header(COLUMNS), tables.rows(runs, COLUMNS))
    print(f"Results, models, TensorBoard's logs, exports and reports are in {asked.out}.")
    return 0 if all(entry["passed"] for entry in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
