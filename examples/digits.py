"""Train LSTMs on handwritten digits, export them, and prove the files equal to the models.

The 1,797 digits that scikit-learn carries, each read as 8 rows of 8 pixels, train an LSTM, an
LSTM with LayerNorm and one with BatchNorm of every timestep. The normalized ones are exported as
SavedModel and as TFLite and checked on the held-out digits.

Run with `make demo`, or `python -m examples.digits`; the results go to build/demo.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable

import keras
import matplotlib.figure
import numpy as np
import rich.console
import rich.progress
import rich.table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import keras_norm
from examples.common.exporting import export_and_check, worst_difference
from keras_norm.export import Report

UNITS = 64
BATCH = 32
EPOCHS = 15
LEARNING_RATE = 1e-3
EVALUATE_EVERY = 5
TARGET = 0.9
ROWS = 8

LAYERS: dict[str, Callable[[], keras.layers.Layer]] = {
    "LSTM": lambda: keras.layers.LSTM(UNITS),
    "LN-LSTM": lambda: keras_norm.LayerNormLSTM(UNITS),
    "BN-LSTM": lambda: keras_norm.BatchNormLSTM(UNITS, max_timesteps=ROWS),
}
EXPORTED = ("LN-LSTM", "BN-LSTM")


@dataclasses.dataclass(frozen=True)
class Run:
    """One trained model, and its test accuracy after each evaluated gradient step."""

    model: keras.Model
    steps: tuple[int, ...]
    accuracies: tuple[float, ...]

    @property
    def steps_to_target(self) -> int | None:
        """Gradient steps until the test accuracy first reached `TARGET`; None if it never did."""
        reached = (s for s, a in zip(self.steps, self.accuracies, strict=True) if a >= TARGET)
        return next(reached, None)


class Recorder(keras.callbacks.Callback):
    """Measures the test accuracy every few gradient steps, and moves a progress bar."""

    def __init__(
        self, x: np.ndarray, y: np.ndarray, advance: Callable[[float], None], every: int
    ) -> None:
        super().__init__()
        self.x, self.y = x, y
        self.advance = advance
        self.every = every
        self.steps: list[int] = []
        self.accuracies: list[float] = []
        self.step = 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Count a step, and evaluate when it is time."""
        self.step += 1
        if self.step % self.every == 0:
            guess = self.model.predict_on_batch(self.x).argmax(axis=-1)
            self.steps.append(self.step)
            self.accuracies.append(float((guess == self.y).mean()))
        self.advance(self.accuracies[-1] if self.accuracies else 0.0)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Digits as (samples, 8 rows, 8 pixels) in [0, 1] and labels, split four to one."""
    digits = load_digits()
    x = (digits.images / 16.0).astype("float32")
    return train_test_split(x, digits.target, test_size=0.2, stratify=digits.target, random_state=0)


def build(name: str) -> keras.Model:
    """A classifier of pixel rows around the recurrent layer of that name."""
    inputs = keras.Input((None, ROWS), name="rows")
    outputs = keras.layers.Dense(10, activation="softmax", name="digit")(LAYERS[name]()(inputs))
    return keras.Model(inputs, outputs, name=name.lower().replace("-", "_"))


def train(
    name: str, data: tuple[np.ndarray, ...], epochs: int, progress: rich.progress.Progress
) -> Run:
    """Train one model with Adam, from the same seed as the others."""
    x_train, x_test, y_train, y_test = data
    keras.utils.set_random_seed(0)
    model = build(name)
    model.compile(keras.optimizers.Adam(LEARNING_RATE), "sparse_categorical_crossentropy")
    total = epochs * -(-len(x_train) // BATCH)
    task = progress.add_task(name, total=total, accuracy=0.0)
    recorder = Recorder(
        x_test,
        y_test,
        lambda accuracy: progress.update(task, advance=1, accuracy=accuracy),
        EVALUATE_EVERY,
    )
    model.fit(x_train, y_train, BATCH, epochs, verbose=0, callbacks=[recorder])
    return Run(model, tuple(recorder.steps), tuple(recorder.accuracies))


def plot(runs: dict[str, Run], path: pathlib.Path) -> None:
    """Draw test accuracy over gradient steps, one curve a model."""
    figure = matplotlib.figure.Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, run in runs.items():
        axes.plot(run.steps, np.multiply(run.accuracies, 100), label=name)
    axes.axhline(TARGET * 100, color="gray", linewidth=0.8, linestyle=":")
    axes.set(xlabel="gradient steps", ylabel="test accuracy [%]", ylim=(0, 101), xlim=(0, None))
    axes.set_title("Handwritten digits, read row by row", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def table(runs: dict[str, Run], reports: dict[str, Report]) -> rich.table.Table:
    """The results, a row for every model."""
    columns = (
        "Test accuracy",
        f"Steps to {TARGET:.0%}",
        "Train / inference gap",
        "Worst export difference",
    )
    result = rich.table.Table("Model", title="Handwritten digits, the held-out fifth")
    for column in columns:
        result.add_column(column, justify="right")
    result.add_column("Check")
    for name, run in runs.items():
        steps = "never" if run.steps_to_target is None else str(run.steps_to_target)
        row = [name, f"{run.accuracies[-1]:.1%}", steps]
        report = reports.get(name)
        if report is None:
            result.add_row(*row, "-", "-", "-")
            continue
        worst = worst_difference(report)
        difference = "not run" if worst is None else f"{worst:.1e}"
        gap = "not measured" if report.gap.worst is None else f"{report.gap.worst:.1e}"
        verdict = "[green]pass[/]" if report else "[red]FAIL[/]"
        result.add_row(*row, gap, difference, verdict)
    return result


def main(argv: list[str] | None = None) -> int:
    """Train, export, check and report; 0 when every check passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/demo"))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)

    console = rich.console.Console()
    data = load()
    columns = (
        "[progress.description]{task.description:<7}",
        rich.progress.BarColumn(),
        "{task.completed:>4.0f}/{task.total:.0f} steps  accuracy {task.fields[accuracy]:6.1%}",
        rich.progress.TimeElapsedColumn(),
    )
    with rich.progress.Progress(*columns, console=console) as progress:
        runs = {name: train(name, data, args.epochs, progress) for name in LAYERS}
    plot(runs, args.out / "learning_curves.png")

    reports = {}
    for name in EXPORTED:
        with console.status(f"Exporting and checking the {name}"):
            model = runs[name].model
            reports[name] = export_and_check(model, {"rows": data[1]}, args.out / model.name)
        reports[name].print(console)

    console.print(table(runs, reports))
    console.print("Gap and difference: the largest, of any probability of any held-out digit.")
    console.print(f"Learning curves, exported files and reports are in {args.out}.")
    return 0 if all(reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
