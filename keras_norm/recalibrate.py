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

from keras_norm.clone import measuring_clone
from keras_norm.keras_internals import reason
from keras_norm.layers.inputs import is_int
from keras_norm.measured import Measured
from keras_norm.ops.pooled_moments import pooled
from keras_norm.walk import batch_norms, named_layers

BATCH = 32

# What makes a normalization one of the whole batch, whose statistics are its mean and variance.
WHOLE_BATCHES = {
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

    where batch b has the mean and variance mean_b and var_b of n_b positions that no mask hides: of
    what does not depend on other batch statistics, the mean and variance of all positions, however
    they are cut into batches. (`unbiased_variance` divides by N - 1; timesteps that share a row
    have their mean statistics.) Each batch is run as in training, dropout off, by the weights as
    they are now, and normalized as a whole: without ghost batches or renormalization. It repairs
    statistics that lag behind the weights: after a short training, weight averaging, or a move to
    other data. Frozen layers, and rows of per-timestep statistics that the data do not reach, keep
    what they had. Weights and seeds are not touched.

    A GaussianNoise stays on. Where it is all that tells samples apart, as on the first state of
    sequences that begin alike, the variance without it would be 0, and inference would magnify
    rounding by 1 / sqrt(epsilon).

    An error leaves the model as it was. Ctrl-C leaves all statistics old, or all new.

    Args:
        model: a built model that can be rebuilt from its config.
        data: an array or tensor, a dict of them, or, for a model that takes a list of inputs, a
            list or tuple of them, cut into batches of 32, or of the size that a stateful model has
            (what is left over fills none then, and is not used); or an iterable of batches, such as
            a tf.data.Dataset or keras.utils.PyDataset, each x, (x, y) or (x, y, sample_weight).
        steps: number of batches to use; None for all. Endless data need it.

    Returns:
        The number of batches used.

    Raises:
        TypeError: `model` is no model, or `data` is neither arrays nor an iterable.
        ValueError: there is no batch, or none with two sequences where statistics of timesteps need
            them; the data end before `steps`, or never; the inputs differ in rows; a statistic is
            not finite; the data may be (x, y), are ragged, or do not fit; all batch normalizations
            are frozen; the model cannot be rebuilt.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
    >>> recalibrate(model, x)
    2
    >>> bool(abs(np.mean(model.predict(x, verbose=0))) < 0.1)
    True

    Reference:
        Wu and Johnson, "Rethinking 'Batch' in BatchNorm" (2021), arXiv 2105.07576, section 3
        (PreciseBN), whose batches are all of one size.
    """
    return Recalibrator(model)(data, steps)


class Recalibrator:
    """Recalibrates one model as often as it is called, and rebuilds it once; see `recalibrate`.

    Every call draws the same noise, so that equal weights and data give equal statistics.
    """

    def __init__(self, model: keras.Model) -> None:
        if not isinstance(model, keras.Model):
            raise TypeError(f"Give a model, of keras.saving.load_model, say. Received: {model!r}.")
        if not model.built:
            raise ValueError(
                f"Model {model.name!r} is not built, and has no statistics yet. Call it on data, "
                "or give it a keras.Input."
            )
        self._model = model
        self._clone = measuring_clone(model, noise=True)
        pairs = list(zip(batch_norms(model), batch_norms(self._clone), strict=True))
        if not pairs:
            raise ValueError(f"model {model.name!r} has no batch normalization to recalibrate.")
        pairs = [pair for pair in pairs if pair[0][1].trainable]
        if not pairs:
            raise ValueError(
                f"All batch normalizations of model {model.name!r} are frozen, and keep their "
                "statistics. Set trainable=True on those that are to be recalibrated."
            )
        for _, (_, copy) in pairs:
            for option, value in WHOLE_BATCHES.items():
                setattr(copy, option, value)
        weights = {id(weight) for weight in self._clone.weights}
        seeds = [variable for variable in self._clone.variables if id(variable) not in weights]
        self._seeds = [(seed, ops.convert_to_numpy(seed)) for seed in seeds]
        self._measured = [(*own, Measured(copy)) for own, (_, copy) in pairs]
        self._statistics = [v for _, (_, copy) in pairs for v in copy.non_trainable_variables]
        self._stateful = [
            layer for _, layer in named_layers(self._clone) if getattr(layer, "stateful", False)
        ]
        self._run = self._compiled()

    def __call__(self, data: Any, steps: int | None = None) -> int:
        """Recalibrate the model as it is now, and give the number of batches used."""
        _require_steps(steps, data)
        self._clone.set_weights(self._model.get_weights())
        for statistic in self._statistics:  # of a batch that overflowed once, say
            statistic.assign(np.nan_to_num(statistic, nan=1.0, posinf=1.0, neginf=1.0))
        for seed, start in self._seeds:
            seed.assign(start)
        for layer in self._stateful:
            layer.reset_state()
        pools = [_Pool(*measured) for measured in self._measured]
        used = 0
        # What a Sequential model was first called on gives its inputs a size that it does not hold
        # others to: only states do.
        inputs = getattr(self._model, "inputs", None) if self._stateful else None
        fixed = inputs[0].shape[0] if inputs else None
        for x in islice(_batches(self._model, data, fixed), steps):
            try:
                self._run(keras.tree.map_structure(ops.convert_to_tensor, x, none_is_leaf=False))
            except Exception as error:  # whatever a layer raises: an id beyond an embedding's, say
                # TensorFlow names nodes behind a tab; of longer texts the first lines say what.
                why = " ".join(reason(error).split("\n\t")[0].splitlines()[:3])
                raise ValueError(f"The model does not take the data: {why}") from error
            for pool in pools:
                pool.add()
            used += 1
        if not used:
            raise ValueError("There is no batch to recalibrate from. Give at least one.")
        if steps is not None and used < steps:
            raise ValueError(
                f"The data ended after {used} batches. Received: steps={steps}. Give more data, or "
                "leave steps out to use all; the model was left as it was."
            )
        for pool in pools:
            pool.require_statistics()
        _assign_all([pair for pool in pools for pair in pool.new_statistics()])
        return used

    def _compiled(self) -> Callable[[Any], Any]:
        """Compile one training call of the clone, as the backend's `fit` would."""
        run = partial(self._clone, training=True)
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            return tf.function(run, autograph=False, reduce_retracing=True)
        if keras.backend.backend() == "jax":
            self._require_unrolled()
            measured = [v for *_, found in self._measured for v in found.variables]
            return _compiled_by_jax(run, [*self._clone.variables, *measured])
        return run

    def _require_unrolled(self) -> None:
        """Refuse cells in loops of Keras, where JAX drops what a step assigns."""
        for path, layer in named_layers(self._clone):
            loop = type(layer) is keras.layers.RNN and not layer.unroll
            if loop and any(norm.trainable for _, norm in batch_norms(layer)):
                raise ValueError(
                    f"On JAX the cell of layer {path!r}, a keras.layers.RNN, cannot update its "
                    "statistics. Set unroll=True, or use a layer such as BatchNormLSTM, or "
                    "recalibrate with KERAS_BACKEND=tensorflow."
                )


class _Pool:
    """Pools what each batch leaves in a `Measured`, for a layer of the model."""

    def __init__(self, path: str, layer: Any, measured: Measured) -> None:
        self.path, self.layer, self.measured = path, layer, measured
        measured.reset()
        shape = measured.mean.shape
        self.mean, self.variance = np.zeros(shape), np.zeros(shape)
        self.count = np.zeros((*shape[:-1], 1))
        self.batches = np.zeros(shape[:-1], "int64")

    def add(self) -> None:
        """Add the batch that has just run."""
        found = self.measured.count, self.measured.mean, self.measured.variance
        n, mean, variance = (np.asarray(variable, "float64") for variable in found)
        there = self.count, self.mean, self.variance
        with np.errstate(over="ignore", invalid="ignore"):  # `require_statistics` says so
            self.count, self.mean, self.variance = pooled(there, (n[..., None], mean, variance))
        self.batches += n > 0
        self.measured.reset()

    def require_statistics(self) -> None:
        """Raise ValueError where no batch reached any of them, or one is not finite."""
        if self.measured.called and not self.count.any():
            raise ValueError(
                f"No batch gave layer {self.path!r} statistics. It takes them of what no mask "
                "hides, and at each timestep of two sequences or more. Give larger batches."
            )
        if not all(np.isfinite(s[self.batches > 0]).all() for s in (self.mean, self.variance)):
            raise ValueError(
                f"The data give layer {self.path!r} statistics that are NaN or infinite. Give "
                "finite data, to a model whose weights are finite; it was left as it was."
            )

    def new_statistics(self) -> list[tuple[Any, np.ndarray]]:
        """Pair the layer's variables with their new values; rows without data keep the old ones."""
        layer, variance, reached = self.layer, self.variance, self.count > 0
        if getattr(layer, "unbiased_variance", False):
            variance = variance * self.count / np.maximum(self.count - 1.0, 1.0)
        found = [
            (layer.moving_mean, self.mean, reached),
            (layer.moving_variance, variance, reached),
        ]
        if getattr(layer, "moving_stddev", None) is not None:
            found.append((layer.moving_stddev, np.sqrt(variance + layer.epsilon), reached))
        if getattr(layer, "update_count", None) is not None:
            found.append((layer.update_count, self.batches, self.batches > 0))
        return [
            (variable, np.where(rows, new, np.asarray(variable))) for variable, new, rows in found
        ]


def _compiled_by_jax(run: Callable[[Any], Any], variables: list[Any]) -> Callable[[Any], None]:
    """Compile a call and the assignments that it makes to `variables`."""
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
    """Assign all values or, after an error or an interrupt, none."""
    before = [(variable, ops.convert_to_numpy(variable)) for variable, _ in values]
    with _interrupts_wait():
        try:
            for variable, value in values:
                variable.assign(value)
        except BaseException:
            for variable, value in before:
                variable.assign(value)
            raise


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Handle Ctrl-C at the end of the block. Python handles it in the main thread alone."""
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
    """Refuse `steps` that is no number of batches, and endless data without it."""
    if steps is None:
        if _is_endless(data):
            raise ValueError(
                "The data never end. Received: steps=None. Give the number of batches to use."
            )
    elif not (is_int(steps) and steps >= 1):
        raise ValueError(
            "steps is the number of batches to use, an int from 1 on, or None for all. "
            f"Received: steps={steps!r}."
        )


def _is_endless(data: Any) -> bool:
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches is None
    cardinality = getattr(data, "cardinality", None)  # of a tf.data.Dataset
    return callable(cardinality) and int(cardinality()) == -1


def _batches(model: keras.Model, data: Any, fixed: int | None) -> Iterator[Any]:
    """The inputs of each batch, where it is fixed all of that size."""
    several = isinstance(getattr(model, "input", None), list | tuple)
    if isinstance(data, tuple) and not (several and len(data) == len(model.inputs)):
        raise ValueError(
            f"A tuple may be batches, or (x, y). Received one of {len(data)}: give x alone, or a "
            "list of batches."
        )
    one = isinstance(data, Mapping) or hasattr(data, "__array__")
    listed = several and isinstance(data, list | tuple)
    if one or (listed and all(hasattr(array, "__array__") for array in data)):
        arrays = keras.tree.map_structure(_as_numpy, data, none_is_leaf=False)
        size, rows = fixed or BATCH, _require_equal_rows(arrays, "data")
        for start in range(0, rows // fixed * fixed if fixed else rows, size):
            batch = slice(start, start + size)
            yield keras.tree.map_structure(lambda a, b=batch: a[b], arrays, none_is_leaf=False)
        return
    if hasattr(data, "shape"):
        raise ValueError(
            f"A {type(data).__name__} has no batches. Give a padded tensor, or a list of them."
        )
    for number, batch in enumerate(_iterator(data), start=1):
        if isinstance(batch, list | tuple) and not 1 <= len(batch) <= 3:
            raise ValueError(
                "A batch is x, (x, y) or (x, y, sample_weight), of arrays. "
                f"Received a {type(batch).__name__} of {len(batch)} in batch {number}."
            )
        x = keras.utils.unpack_x_y_sample_weight(batch)[0]
        _require_equal_rows(x, "x", f" in batch {number}")
        yield x


def _iterator(data: Any) -> Iterator[Any]:
    if isinstance(data, keras.utils.PyDataset) and data.num_batches is not None:
        return map(data.__getitem__, range(data.num_batches))  # it answers every index
    with contextlib.suppress(TypeError):
        if not isinstance(data, str):
            return iter(data)
    raise TypeError(
        "data is an array, a dict or list of arrays, or an iterable of batches. "
        f"Received: {reprlib.repr(data)}."
    )


def _as_numpy(array: Any) -> np.ndarray:
    if np.ma.isMaskedArray(array):
        raise ValueError(
            "No layer sees the mask of a masked array. Received one as data. Fill it with the "
            "value that a Masking layer looks for: array.filled(value)."
        )
    array = np.asarray(array if isinstance(array, np.ndarray) else ops.convert_to_numpy(array))
    if array.dtype.kind == "c":
        raise ValueError(
            f"Data are real numbers. Received {array.dtype}. Give both parts as features."
        )
    return array


def _require_equal_rows(inputs: Any, name: str, where: str = "") -> int:
    """Count the rows that all inputs have; inputs that are no arrays, or differ, are refused."""
    shapes = {
        name + "".join(f"[{key!r}]" for key in path): tuple(np.shape(array))
        for path, array in keras.tree.flatten_with_path(inputs)
        if array is not None
    }
    for path, shape in (shapes or {name: ()}).items():
        if not shape or 0 in shape[1:]:
            raise ValueError(
                f"Every input is an array with a row for each sample. Received{where}: {path} of "
                f"shape {shape}. Give NumPy arrays or tensors that hold values."
            )
    rows = {path: shape[0] for path, shape in shapes.items()}
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{n} rows in {path}" for path, n in rows.items())
        raise ValueError(
            f"The inputs have different numbers of rows. Received{where}: {found}. Give every "
            "input one row for each sample."
        )
    return next(iter(rows.values()))
