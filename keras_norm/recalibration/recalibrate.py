"""Recompute the moving statistics of batch normalizations from data."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import keras
import numpy as np
from keras import ops

from keras_norm.clone import clone_for_statistics
from keras_norm.keras_internals import reason
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.ops.replicas import local_statistics
from keras_norm.ops.to_numpy import to_numpy
from keras_norm.progress import Progress
from keras_norm.recalibration.batches import batches_of, map_arrays, require_steps
from keras_norm.recalibration.layer_statistics import LayerStatistics, assign_all
from keras_norm.recalibration.statistics_accumulator import StatisticsAccumulator
from keras_norm.typing import Nest, Tensor

# A function that runs a model on the inputs of a batch, so that the model updates its variables.
Run = Callable[[Nest], object]

# Values of BatchNormalization's options that disable ghost batches, unbiased variance and renorm.
WHOLE_BATCH_OPTIONS = {
    "virtual_batch_size": None,
    "unbiased_variance": False,
    "renorm_clipping": {"rmin": 1.0, "rmax": 1.0, "dmax": 0.0},
}


def recalibrate(model: keras.Model, data: Nest | Iterable[Nest], steps: int | None = None) -> int:
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
        The number of batches used, without batches of zero samples.

    Raises:
        TypeError: `model` is not a model, or `data` is neither arrays nor an iterable.
        ValueError: there are no samples; per-timestep statistics have no batch with two sequences;
            the data end before `steps`, or never; the inputs have different numbers of rows, are
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
    """Recomputes the moving statistics of a model in each call; all calls share one clone.

    `recalibrate` documents the arguments and the errors.

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
        self._seeds = [(seed, to_numpy(seed)) for seed in seeds]
        self._accumulators = [(*own, StatisticsAccumulator(copy)) for own, (_, copy) in pairs]
        self._statistics = [v for _, (_, copy) in pairs for v in copy.non_trainable_variables]
        self._stateful = [
            layer for _, layer in named_layers(self._clone) if getattr(layer, "stateful", False)
        ]
        self._run = self._compile()

    def __call__(self, data: Nest | Iterable[Nest], steps: int | None = None) -> int:
        """Recompute the moving statistics of the model from data, with its current weights.

        Returns:
            The number of batches used.
        """
        require_steps(steps, data)
        self._clone.set_weights(self._model.get_weights())
        # The clone has momentum 0, so an update computes new + 0 * old. The sum is NaN if the old
        # value is not finite, for example after an overflow in an earlier batch.
        for statistic in self._statistics:
            statistic.assign(np.nan_to_num(to_numpy(statistic), nan=1.0, posinf=1.0, neginf=1.0))
        for seed, start in self._seeds:
            seed.assign(start)
        for layer in self._stateful:
            layer.reset_state()
        totals = [LayerStatistics(*arguments) for arguments in self._accumulators]
        used = 0
        # Only a stateful model needs batches of a fixed size. Other models may have a static batch
        # size too: a Sequential model stores the batch size of its first call.
        inputs = getattr(self._model, "inputs", None) if self._stateful else None
        batch_size = inputs[0].shape[0] if inputs else None
        batches = islice(batches_of(self._model, data, batch_size), steps)
        with Progress("recalibrate", steps) as progress:
            for x in batches:
                progress.step()
                self._run_batch(x)
                for total in totals:
                    total.add_batch()
                used += 1
        if not used:
            raise ValueError("The data contain no samples. Give at least one batch with samples.")
        if steps is not None and used < steps:
            raise ValueError(
                f"The data ended after {used} batches. Received: steps={steps}. Give more data, or "
                "leave steps out to use all. The model was not changed."
            )
        for total in totals:
            total.require_statistics()
        assign_all([pair for total in totals for pair in total.new_statistics()])
        return used

    def _run_batch(self, x: Nest) -> None:
        """Run the clone on a batch, so that it updates its statistics."""
        try:
            with local_statistics():  # the processes may have different numbers of batches
                self._run(map_arrays(ops.convert_to_tensor, x))
        except Exception as error:
            # Layers raise exceptions of any class. Keep three lines of the exception's message,
            # without TensorFlow's list of graph nodes, which begins with a tab.
            why = " ".join(reason(error).split("\n\t")[0].splitlines()[:3])
            raise ValueError(f"The model cannot process the data: {why}") from error

    def _compile(self) -> Run:
        """Return a function that runs the cloned model with training=True, compiled as in `fit`."""
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
        """Raise ValueError for a batch norm inside a keras.layers.RNN without unroll=True.

        On JAX, the loop of keras.layers.RNN loses the updates of the moving statistics.
        """
        for path, layer in named_layers(self._clone):
            loop = type(layer) is keras.layers.RNN and not layer.unroll
            if loop and any(norm.trainable for _, norm in batch_norms(layer)):
                raise ValueError(
                    f"On JAX the cell of layer {path!r}, a keras.layers.RNN, cannot update its "
                    "statistics. Set unroll=True, use a layer such as BatchNormLSTM, or "
                    "recalibrate with KERAS_BACKEND=tensorflow."
                )


def _compile_with_jax(run: Run, variables: list[keras.Variable]) -> Run:
    """Compile `run` with JAX, and assign the new values of `variables` after each call."""
    import jax

    @jax.jit
    def compute(values: list[Tensor], x: Nest) -> list[Tensor]:
        with keras.StatelessScope(list(zip(variables, values, strict=True))) as scope:
            run(x)
        return [scope.get_current_value(variable) for variable in variables]

    def run_and_assign(x: Nest) -> None:
        values = compute([variable.value for variable in variables], x)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    return run_and_assign
