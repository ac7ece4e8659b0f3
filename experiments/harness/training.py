"""How the short studies train a model: Keras' progress bar, TensorBoard, and the best weights."""

import functools
import pathlib
import sys
from collections.abc import Callable, Hashable
from typing import Any

import keras
import numpy as np

from experiments.harness.results import Run
from keras_norm.recalibrate import Recalibrator
from keras_norm.walk import batch_norms

CALIBRATION = 200  # training batches

Curves = dict[str, list[float]]

# Kept for the next seeds: more than the models that one example trains in turn.
_kept = functools.lru_cache(maxsize=8)

# The noise that one adds goes on from seed to seed.
_recalibrator = _kept(Recalibrator)


class Recalibration(keras.callbacks.Callback):
    """Gives batch normalizations the statistics of training batches before each validation.

    Cooijmans et al. 2016 test so. The moving averages lag behind the weights of a recurrence: on
    permuted MNIST they cost a BN-LSTM a quarter of its accuracy, and choose the wrong epoch.

    Args:
        inputs: to train with.
        size: of a batch; up to CALIBRATION of them are used.
    """

    def __init__(self, inputs: np.ndarray, size: int) -> None:
        super().__init__()
        starts = range(0, len(inputs) - size + 1, size)[:CALIBRATION]
        self.batches = [inputs[start : start + size] for start in starts]

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Take the model that is about to be trained."""
        self.recalibrate = _recalibrator(self.model)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Recalibrate it, as it is about to be validated."""
        self.recalibrate(self.batches)


def compiled(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> keras.Model:
    """Compile a classifier and make its optimizer's variables, which a file of it has too."""
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    optimizer.build(model.trainable_variables)
    return model


def started(build: Callable[..., keras.Model], *arguments: Hashable, seed: int) -> keras.Model:
    """The model that `build` makes from a seed.

    For other seeds, and other tasks with the same arguments, it is the same model, which starts
    again: a short training takes less time than to trace and compile a model.

    Args:
        build: makes a compiled model, the variables of its optimizer too.
        *arguments: of `build`.
        seed: of all that is random.
    """
    model = _built(build, *arguments)
    keras.utils.set_random_seed(seed)
    for variable, start in zip(_state(model), _state(build(*arguments)), strict=True):
        variable.assign(start)
    return model


@_kept
def _built(build: Callable[..., keras.Model], *arguments: Hashable) -> keras.Model:
    return build(*arguments)


def _state(model: keras.Model) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]


def fit(
    model: keras.Model,
    *arrays: Any,
    run: Run,
    out: pathlib.Path,
    monitor: str,
    callbacks: tuple[keras.callbacks.Callback, ...] = (),
    **options: Any,
) -> Curves:
    """Train a compiled model, and leave it with the weights of its best epoch.

    Batch normalizations are recalibrated before every validation.

    Writes TensorBoard's logs to `out/logs`, and the best model to `out/models`.

    Args:
        model: compiled.
        *arrays: the training data as `model.fit` takes them.
        run: which training this is.
        out: folder of the example.
        monitor: name of the validation value that says which epoch is best, such as
            "val_accuracy"; Keras knows whether more of it is better.
        callbacks: further ones.
        **options: of `model.fit`.

    Returns:
        The value of every metric after every epoch.
    """
    file = model_file(out, run)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # an earlier run's
    print(f"\n{run.name}", flush=True)
    if batch_norms(model):
        callbacks = (*callbacks, Recalibration(arrays[0], options["batch_size"]))
    history = model.fit(
        *arrays,
        # A bar that is redrawn would fill a log file.
        verbose=1 if sys.stdout.isatty() else 2,
        callbacks=[
            keras.callbacks.TensorBoard(out / "logs" / slug(run.name), write_graph=False),
            keras.callbacks.ModelCheckpoint(file, monitor=monitor, save_best_only=True),
            *callbacks,
        ],
        **options,
    ).history
    load_best(model, out, run)
    return {metric: [round(float(x), 5) for x in values] for metric, values in history.items()}


def load_best(model: keras.Model, out: pathlib.Path, run: Run) -> None:
    """Give a model the weights that a run ended with.

    Raises:
        SystemExit: they are gone.
    """
    file = model_file(out, run)
    if not file.exists():
        raise SystemExit(f"{file} is not there: remove the run from results.json to train it again")
    model.load_weights(file)


def model_file(out: pathlib.Path, run: Run) -> pathlib.Path:
    """Where the best model of a run is kept."""
    return out / "models" / f"{slug(run.name)}.keras"


def slug(name: str) -> str:
    """A name as part of a file's.

    >>> slug("in order, LN-LSTM, seed 0")
    'in-order-ln-lstm-seed-0'
    """
    return "-".join(name.replace(",", " ").split()).lower()
