"""Recompute the moving statistics of batch normalizations from data."""

import contextlib
import reprlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.clone import clone_for_statistics
from keras_norm.keras_internals import reason
from keras_norm.layers.inputs import is_int
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.ops.merge_moments import merge_moments
from keras_norm.statistics_accumulator import StatisticsAccumulator
from keras_norm.typing import Array, Nest, TensorLike

Run = Callable[[Nest], Nest]

BATCH = 32

# Options of BatchNormalization that normalize each batch with its own biased mean and variance.
WHOLE_BATCH_OPTIONS = {
    "virtual_batch_size": None,
    "unbiased_variance": False,
    "renorm_clipping": {"rmin": 1.0, "rmax": 1.0, "dmax": 0.0},
}


def recalibrate(model: keras.Model, data: Any, steps: int | None = None) -> int:
    """Replace the moving statistics of every batch normalization by averages over `data`.

    ::

        N = sum of n_b
        moving_mean = sum of n_b * mean_b / N
        moving_variance = sum of n_b * (var_b + (mean_b - moving_mean)^2) / N

    where batch b has n_b unmasked positions with mean mean_b and variance var_b. If the inputs of a
    layer depend on no other batch normalization, these are the mean and variance of all positions,
    for every batch size. (With `unbiased_variance` the divisor is N - 1. A row that several
    timesteps share has the mean of their statistics.)

    Use it if the moving statistics lag behind the weights: after a short training, after weight
    averaging, or before serving other data. Each batch runs as in training with the present
    weights, but without dropout, ghost batches and batch renormalization. Frozen layers keep their
    statistics, and so do rows of per-timestep statistics without data. Weights and seeds do not
    change.

    GaussianNoise layers add their noise. Some inputs are equal without noise, for example the first
    state of sequences that begin with equal values. Their variance would be 0, and inference would
    amplify rounding errors by 1 / sqrt(epsilon).

    After an error the model is unchanged. After Ctrl-C either all statistics are old or all are
    new.

    Args:
        model: a built model that can be rebuilt from its config.
        data: arrays or an iterable of batches. Arrays are one array or tensor, a dict, or, for a
            model with a list of inputs, a list or tuple. They are split into batches of 32, or of
            the batch size of a stateful model, without an incomplete last batch. An iterable, such
            as a tf.data.Dataset or keras.utils.PyDataset, yields x, (x, y) or (x, y,
            sample_weight).
        steps: number of batches to use; None for all. Endless data need it.

    Returns:
        The number of batches used.

    Raises:
        TypeError: `model` is not a model, or `data` is neither arrays nor an iterable.
        ValueError: there is no batch; per-timestep statistics have no batch with two sequences; the
            data end before `steps`, or never; the inputs have different numbers of rows, are
            ragged, do not fit the model, or may be (x, y); a statistic is not finite; all batch
            normalizations are frozen; the model cannot be rebuilt.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
    >>> recalibrate(model, x)
    2
    >>> bool(abs(np.mean(model.predict(x, verbose=0))) < 0.1)
    True

    Reference:
        Wu and Johnson, "Rethinking 'Batch' in BatchNorm" (2021), arXiv 2105.07576, section 3
        (PreciseBN, with equal batch sizes).
    """
    return Recalibrator(model)(data, steps)


class Recalibrator:
    """Recalibrates a model in each call, with a single clone of the model; see `recalibrate`.

    The noise has fixed seeds, so equal weights and data give equal statistics.
    """

    def __init__(self, model: keras.Model) -> None:
        if not isinstance(model, keras.Model):
            raise TypeError(
                f"model must be a Keras model. Received: {model!r}. Load a saved model with "
                "keras.saving.load_model."
            )
        if not model.built:
            raise ValueError(
                f"Model {model.name!r} is not built, so it has no statistics. Call it on data, or "
                "give it a keras.Input."
            )
        self._model = model
        self._clone = clone_for_statistics(model, noise=True)
        pairs = list(zip(batch_norms(model), batch_norms(self._clone), strict=True))
        if not pairs:
            raise ValueError(f"Model {model.name!r} has no batch normalization to recalibrate.")
        pairs = [pair for pair in pairs if pair[0][1].trainable]
        if not pairs:
            raise ValueError(
                f"All batch normalizations of model {model.name!r} are frozen. Set trainable=True "
                "on the layers to recalibrate."
            )
        for _, (_, copy) in pairs:
            for option, value in WHOLE_BATCH_OPTIONS.items():
                setattr(copy, option, value)
        weights = {id(weight) for weight in self._clone.weights}
        seeds = [variable for variable in self._clone.variables if id(variable) not in weights]
        self._seeds = [(seed, ops.convert_to_numpy(seed)) for seed in seeds]
        self._accumulators = [(*own, StatisticsAccumulator(copy)) for own, (_, copy) in pairs]
        self._statistics = [v for _, (_, copy) in pairs for v in copy.non_trainable_variables]
        self._stateful = [
            layer for _, layer in named_layers(self._clone) if getattr(layer, "stateful", False)
        ]
        self._run = self._compile()

    def __call__(self, data: Any, steps: int | None = None) -> int:
        """Recalibrate the model with its present weights, and return the number of batches used."""
        _require_steps(steps, data)
        self._clone.set_weights(self._model.get_weights())
        # The clone has momentum 0, so an update computes new + 0 * old. The sum is NaN if the old
        # value is not finite, for example after an overflow in an earlier batch.
        for statistic in self._statistics:
            statistic.assign(np.nan_to_num(statistic, nan=1.0, posinf=1.0, neginf=1.0))
        for seed, start in self._seeds:
            seed.assign(start)
        for layer in self._stateful:
            layer.reset_state()
        totals = [_LayerStatistics(*arguments) for arguments in self._accumulators]
        used = 0
        # The inputs of a Sequential model have the batch size of its first call. Only a stateful
        # model needs this batch size later.
        inputs = getattr(self._model, "inputs", None) if self._stateful else None
        batch_size = inputs[0].shape[0] if inputs else None
        for x in islice(_batches(self._model, data, batch_size), steps):
            try:
                self._run(keras.tree.map_structure(ops.convert_to_tensor, x, none_is_leaf=False))
            except Exception as error:  # a layer may raise anything, for a wrong index for example
                # The first three lines name the cause; after a tab TensorFlow lists graph nodes.
                why = " ".join(reason(error).split("\n\t")[0].splitlines()[:3])
                raise ValueError(f"The model cannot process the data: {why}") from error
            for total in totals:
                total.add_batch()
            used += 1
        if not used:
            raise ValueError("The data contain no batch. Give at least one batch.")
        if steps is not None and used < steps:
            raise ValueError(
                f"The data ended after {used} batches. Received: steps={steps}. Give more data, or "
                "leave steps out to use all. The model was not changed."
            )
        for total in totals:
            total.require_statistics()
        _assign_all([pair for total in totals for pair in total.new_statistics()])
        return used

    def _compile(self) -> Run:
        """Compile a training call of the clone, as the backend's `fit` does."""
        run = partial(self._clone, training=True)
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            compiled: Run = tf.function(run, autograph=False, reduce_retracing=True)
            return compiled
        if keras.backend.backend() == "jax":
            self._require_unrolled()
            accumulated = [v for *_, a in self._accumulators for v in a.variables]
            return _compile_with_jax(run, [*self._clone.variables, *accumulated])
        return run

    def _require_unrolled(self) -> None:
        """Refuse cells in keras.layers.RNN with unroll=False: on JAX their updates get lost."""
        for path, layer in named_layers(self._clone):
            loop = type(layer) is keras.layers.RNN and not layer.unroll
            if loop and any(norm.trainable for _, norm in batch_norms(layer)):
                raise ValueError(
                    f"On JAX the cell of layer {path!r}, a keras.layers.RNN, cannot update its "
                    "statistics. Set unroll=True, use a layer such as BatchNormLSTM, or "
                    "recalibrate with KERAS_BACKEND=tensorflow."
                )


class _LayerStatistics:
    """Accumulates the statistics of one layer over all batches, in float64."""

    def __init__(self, path: str, layer: Any, accumulator: StatisticsAccumulator) -> None:
        self.path, self.layer, self.accumulator = path, layer, accumulator
        accumulator.reset()
        shape = accumulator.mean.shape
        self.mean, self.variance = np.zeros(shape), np.zeros(shape)
        self.count = np.zeros((*shape[:-1], 1))
        self.batches = np.zeros(shape[:-1], "int64")

    def add_batch(self) -> None:
        """Add the statistics of the last batch."""
        batch = self.accumulator.count, self.accumulator.mean, self.accumulator.variance
        n, mean, variance = (np.asarray(variable, "float64") for variable in batch)
        old = self.count, self.mean, self.variance
        # `require_statistics` reports an overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            self.count, self.mean, self.variance = merge_moments(
                old, (n[..., None], mean, variance)
            )
        self.batches += n > 0
        self.accumulator.reset()

    def require_statistics(self) -> None:
        """Raise ValueError if the batches gave no statistics, or infinite or NaN statistics."""
        if self.accumulator.called and not self.count.any():
            raise ValueError(
                f"No batch gave layer {self.path!r} statistics. The layer needs unmasked "
                "positions, and per-timestep statistics need two unmasked sequences at a timestep. "
                "Give larger batches."
            )
        if not all(np.isfinite(s[self.batches > 0]).all() for s in (self.mean, self.variance)):
            raise ValueError(
                f"The statistics of layer {self.path!r} on the data are NaN or infinite. Check "
                "that the data and the weights are finite. The model was not changed."
            )

    def new_statistics(self) -> list[tuple[Any, np.ndarray]]:
        """Pair the layer's variables with their new values; rows without data keep the old ones."""
        layer, variance, updated = self.layer, self.variance, self.count > 0
        if getattr(layer, "unbiased_variance", False):
            variance = variance * self.count / np.maximum(self.count - 1.0, 1.0)
        values = [
            (layer.moving_mean, self.mean, updated),
            (layer.moving_variance, variance, updated),
        ]
        if getattr(layer, "moving_stddev", None) is not None:
            values.append((layer.moving_stddev, np.sqrt(variance + layer.epsilon), updated))
        if getattr(layer, "update_count", None) is not None:
            values.append((layer.update_count, self.batches, self.batches > 0))
        return [
            (variable, np.where(rows, new, np.asarray(variable))) for variable, new, rows in values
        ]


def _compile_with_jax(run: Callable[[Any], Any], variables: list[Any]) -> Callable[[Any], None]:
    """Compile a call together with its assignments to `variables`."""
    import jax

    @jax.jit
    def compute(values: list[Any], x: Any) -> list[Any]:
        with keras.StatelessScope(list(zip(variables, values, strict=True))) as scope:
            run(x)
        return [scope.get_current_value(variable) for variable in variables]

    def run_and_assign(x: Any) -> None:
        values = compute([variable.value for variable in variables], x)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    return run_and_assign


def _assign_all(values: list[tuple[Any, np.ndarray]]) -> None:
    """Assign values to variables; after an error restore the old values of all variables."""
    before = [(variable, ops.convert_to_numpy(variable)) for variable, _ in values]
    with _delayed_interrupts():
        try:
            for variable, value in values:
                variable.assign(value)
        except BaseException:
            for variable, value in before:
                variable.assign(value)
            raise


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; only the main thread receives it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    received = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)


def _require_steps(steps: int | None, data: Any) -> None:
    """Check that `steps` is a number of batches, and that endless data have it.

    Raises:
        ValueError: `steps` is below 1 or not an int, or is None for endless data.
    """
    if steps is None:
        if _is_endless(data):
            raise ValueError(
                "The data never end. Received: steps=None. Give the number of batches as steps."
            )
    elif not (is_int(steps) and steps >= 1):
        raise ValueError(
            "steps must be the number of batches to use, an int of 1 or more, or None for all. "
            f"Received: steps={steps!r}."
        )


def _is_endless(data: Any) -> bool:
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches is None
    cardinality = getattr(data, "cardinality", None)  # a method of tf.data.Dataset
    return callable(cardinality) and int(cardinality()) == -1


def _batches(model: keras.Model, data: Any, batch_size: int | None) -> Iterator[Any]:
    """Iterate over the inputs of each batch.

    Args:
        model: the model to recalibrate.
        data: the `data` of `recalibrate`.
        batch_size: batch size of a stateful model, else None. An incomplete last batch of arrays is
            not used then.

    Raises:
        TypeError: `data` is neither arrays nor an iterable.
        ValueError: the data do not fit.
    """
    takes_list = isinstance(getattr(model, "input", None), list | tuple)
    if isinstance(data, tuple) and not (takes_list and len(data) == len(model.inputs)):
        raise ValueError(
            "data must not be a tuple, which may be (x, y) or batches. Received a tuple of "
            f"{len(data)}. Give x alone, or a list of batches."
        )
    one_object = isinstance(data, Mapping) or hasattr(data, "__array__")
    list_of_inputs = takes_list and isinstance(data, list | tuple)
    if one_object or (list_of_inputs and all(hasattr(array, "__array__") for array in data)):
        arrays = keras.tree.map_structure(_as_numpy, data, none_is_leaf=False)
        size, rows = batch_size or BATCH, _require_equal_rows(arrays, "data")
        end = rows // batch_size * batch_size if batch_size else rows
        for start in range(0, end, size):
            batch = slice(start, start + size)
            yield keras.tree.map_structure(lambda a, b=batch: a[b], arrays, none_is_leaf=False)
        return
    if hasattr(data, "shape"):
        raise ValueError(
            f"data cannot be split into batches. Received a {type(data).__name__}. Give a padded "
            "tensor, or a list of batches."
        )
    for number, batch in enumerate(_iterator(data), start=1):
        if isinstance(batch, list | tuple) and not 1 <= len(batch) <= 3:
            raise ValueError(
                "A batch must be x, (x, y) or (x, y, sample_weight). "
                f"Received a {type(batch).__name__} of {len(batch)} in batch {number}."
            )
        x = keras.utils.unpack_x_y_sample_weight(batch)[0]
        _require_equal_rows(x, "x", f" in batch {number}")
        yield x


def _iterator(data: Any) -> Iterator[Any]:
    if isinstance(data, keras.utils.PyDataset) and data.num_batches is not None:
        # Not `iter`, which does not end: a PyDataset may return a batch for every index.
        return map(data.__getitem__, range(data.num_batches))
    with contextlib.suppress(TypeError):
        if not isinstance(data, str):
            return iter(data)
    raise TypeError(
        "data must be an array, a dict or list of arrays, or an iterable of batches. "
        f"Received: {reprlib.repr(data)}."
    )


def _as_numpy(data: TensorLike) -> Array:
    if np.ma.isMaskedArray(data):
        raise ValueError(
            "Keras ignores the mask of a NumPy masked array. Received a masked array as data. Fill "
            "it with the mask_value of a Masking layer: array.filled(mask_value)."
        )
    array: Array = np.asarray(data if isinstance(data, np.ndarray) else ops.convert_to_numpy(data))
    if array.dtype.kind == "c":
        raise ValueError(
            f"data must be real numbers. Received {array.dtype}. Give the real and imaginary parts "
            "as two features."
        )
    return array


def _require_equal_rows(inputs: Any, name: str, where: str = "") -> int:
    """Return the number of rows of all inputs.

    Raises:
        ValueError: an input is not an array of samples, or the numbers of rows differ.
    """
    shapes = {
        name + "".join(f"[{key!r}]" for key in path): tuple(np.shape(array))
        for path, array in keras.tree.flatten_with_path(inputs)
        if array is not None
    }
    for path, shape in (shapes or {name: ()}).items():
        if not shape or 0 in shape[1:]:
            raise ValueError(
                f"Every input must be an array with one row for each sample. Received{where}: "
                f"{path} of shape {shape}. Give NumPy arrays or tensors that are not empty."
            )
    rows = {path: shape[0] for path, shape in shapes.items()}
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{n} rows in {path}" for path, n in rows.items())
        raise ValueError(
            f"The inputs have different numbers of rows. Received{where}: {found}. Give every "
            "input one row for each sample."
        )
    return int(next(iter(rows.values())))
