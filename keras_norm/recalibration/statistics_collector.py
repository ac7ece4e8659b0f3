"""Run a clone of a model on data, and collect the statistics of its batch normalizations."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_norm.clone import clone_for_statistics
from keras_norm.keras_internals import reason
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.ops.replicas import local_statistics
from keras_norm.ops.to_numpy import to_numpy
from keras_norm.progress import Progress
from keras_norm.recalibration.batches import batches_of, map_arrays, require_batches
from keras_norm.recalibration.compile_run import Run, compile_run
from keras_norm.recalibration.hash_weights import hash_weights
from keras_norm.recalibration.independent_norms import independent_norms
from keras_norm.recalibration.layer_moments import LayerMoments
from keras_norm.recalibration.process_group import without_distribution
from keras_norm.recalibration.statistics import Statistics
from keras_norm.recalibration.statistics_accumulator import StatisticsAccumulator
from keras_norm.recalibration.trainable_norms import stable_norms, trainable_norms
from keras_norm.typing import Array, Nest, Tensor, Tensors

# Options of the BatchNormalization layers in the clone of the model. They make a layer compute the
# mean and the biased variance of a whole batch, only from the data of this process.
WHOLE_BATCH_OPTIONS = {
    "virtual_batch_size": None,
    "unbiased_variance": False,
    "renorm": False,
    "synchronized": False,
}


class CollectedLayer(NamedTuple):
    """A batch normalization of the model, its copy in the clone, and the copy's accumulator."""

    layer: keras.layers.Layer
    copy: keras.layers.Layer
    accumulator: StatisticsAccumulator


class StatisticsCollector:
    """Collects the statistics of a model on data; all calls share one clone of the model.

    `collect_statistics` documents the arguments and the errors. The seeds of the noise are a hash
    of the batch, so equal weights and data give equal statistics, for any order of the batches.

    Attributes:
        layers: the batch normalizations that are not frozen, by their paths.
    """

    def __init__(self, model: keras.Model) -> None:
        norms = trainable_norms(model)
        self.model = model
        with without_distribution():
            self._clone = clone_for_statistics(model, noise=True)
            paths = (path for path, _ in stable_norms(model))
            copies = dict(zip(paths, (copy for _, copy in batch_norms(self._clone)), strict=True))
            self.layers: dict[str, CollectedLayer] = {}
            for path, layer in norms.items():
                copy = copies[path]
                for option, value in WHOLE_BATCH_OPTIONS.items():
                    setattr(copy, option, value)
                self.layers[path] = CollectedLayer(layer, copy, StatisticsAccumulator(copy))
        weights = {id(weight) for weight in self._clone.weights}
        seeds = [variable for variable in self._clone.variables if id(variable) not in weights]
        self._seeds = [(seed, to_numpy(seed)) for seed in seeds]
        self._stateful = [
            layer for _, layer in named_layers(self._clone) if getattr(layer, "stateful", False)
        ]
        # hash of a batch -> number of batches with this hash that were read
        self._drawn: Counter[int] = Counter()
        self._compiled: dict[tuple[str, ...], Run] = {}

    def __call__(
        self,
        data: Nest | Iterable[Nest],
        steps: int | None = None,
        batch_size: int | None = None,
        paths: Sequence[str] | None = None,
        given: Mapping[str, LayerMoments] = MappingProxyType({}),
    ) -> Statistics:
        """Collect the statistics of layers on data, with the current weights of the model.

        Args:
            data: the `data` of `collect_statistics`.
            steps: number of batches to use; None for all.
            batch_size: number of rows in a batch of arrays; None for the default.
            paths: paths of the layers; None for all. The other layers normalize with their moving
                statistics, as in inference.
            given: statistics by path, which replace the moving statistics of other layers.
        """
        require_batches(steps, batch_size, data)
        paths = tuple(self.layers) if paths is None else tuple(paths)
        replaced = (self.layers[path].layer for path in {*paths, *given})
        hashed = hash_weights(self.model, replaced)
        with without_distribution():
            self._reset(given)
            self._choose(paths)
            self._drawn.clear()
            total = {path: LayerMoments.empty(self.layers[path].copy) for path in paths}
            used = 0
            batches = islice(batches_of(self.model, data, batch_size, self._batch_size()), steps)
            with Progress("recalibrate", steps) as progress:
                for x in batches:
                    progress.step()
                    batch = self._run_batch(paths, x)
                    total = {path: total[path].merge(batch[path]) for path in paths}
                    used += 1
        if steps is not None and used < steps:
            raise ValueError(
                f"The data ended after {used} batches. Received: steps={steps}. Give more data, or "
                "leave steps out to use all. The model was not changed."
            )
        for path, layer in total.items():
            if not layer.is_finite():
                raise ValueError(
                    f"The statistics of layer {path!r} on the data are NaN or infinite. Check "
                    "that the data and the weights are finite. The model was not changed."
                )
        return Statistics(total, used, hashed)

    def groups(self) -> list[list[str]]:
        """List the paths of the layers that ran, in call order, in groups to recalibrate together.

        The norms of one recurrent layer are one group, because the inputs of each norm depend on
        the other norms through the states. Any other layer is a group of its own.
        """
        loops = [
            layer for _, layer in named_layers(self.model) if isinstance(layer, keras.layers.RNN)
        ]
        inside = {id(norm): id(loop) for loop in reversed(loops) for _, norm in batch_norms(loop)}
        found: dict[int, list[str]] = {}
        calls = {path: layer.accumulator.first_call for path, layer in self.layers.items()}
        for _, path in sorted((call, path) for path, call in calls.items() if call is not None):
            layer = id(self.layers[path].layer)
            found.setdefault(inside.get(layer, layer), []).append(path)
        return list(found.values())

    def _batch_size(self) -> int | None:
        """Return the batch size of a stateful model, or None if the model takes any batch size.

        Only a stateful model needs batches of a fixed size. Other models may have a static batch
        size too: a Sequential model stores the batch size of its first call.
        """
        inputs = getattr(self.model, "inputs", None) if self._stateful else None
        return inputs[0].shape[0] if inputs else None

    def _reset(self, given: Mapping[str, LayerMoments]) -> None:
        """Copy weights to the clone, replace moving statistics by `given`, and reset RNN states.

        Args:
            given: new moving statistics of layers, by the path of the layer.
        """
        self._clone.set_weights(self.model.get_weights())
        for _, copy, _ in self.layers.values():
            for variable in copy.non_trainable_variables:
                # Replace NaN: the clone normalizes a batch of too few samples with these moving
                # statistics.
                value = to_numpy(variable)
                variable.assign(np.nan_to_num(value, nan=1.0, posinf=1.0, neginf=1.0))
        for path, statistics in given.items():
            for variable, value in statistics.new_values(self.layers[path].copy):
                variable.assign(value)
        for layer in self._stateful:
            layer.reset_state()

    def _seed_noise(self, x: Nest) -> None:
        """Seed the noise with a hash of the batch, so that equal data draw equal noise."""
        if not self._seeds:
            return
        hashed = 0
        for array in keras.tree.flatten(map_arrays(ops.convert_to_numpy, x)):
            if array is not None:
                is_strings = array.dtype == object
                content = repr(array.tolist()).encode() if is_strings else array.tobytes()
                hashed = zlib.crc32(content, hashed)
        # The state of a Keras seed generator is an array [seed, number of draws].
        number = self._drawn[hashed]
        self._drawn[hashed] += 1
        for seed, start in self._seeds:
            new = (int(start[0]) + hashed + number) % 2**31
            seed.assign(np.array([new, start[1]], start.dtype))

    def _choose(self, paths: tuple[str, ...]) -> None:
        """Let only the layers of `paths` normalize with the statistics of the batch.

        A timestep that few sequences reach is normalized with other statistics than its own. So it
        counts only in layers before which no layer has normalized it so.
        """
        independent = independent_norms(self.model, [self.layers[path].layer for path in paths])
        for path, (layer, copy, accumulator) in self.layers.items():
            copy.trainable = path in paths
            accumulator.counts_all = any(layer is norm for norm in independent)

    def _run_batch(self, paths: tuple[str, ...], x: Nest) -> dict[str, LayerMoments]:
        """Run the clone on a batch, and return the statistics of the batch."""
        if paths not in self._compiled:
            self._compiled[paths] = self._compile(paths)
        try:
            with local_statistics(collected=True):
                x = map_arrays(ops.convert_to_tensor, x)
                self._seed_noise(x)
                moments = self._compiled[paths](x)
        except Exception as error:
            # Layers raise exceptions of any class. Keep three lines of the exception's message,
            # without TensorFlow's list of graph nodes, which begins with a tab.
            why = " ".join(reason(error).split("\n\t")[0].splitlines()[:3])
            raise ValueError(f"The model cannot process the data: {why}") from error
        found = {}
        for path, values in zip(paths, moments, strict=True):
            n, mean, variance = (_to_float64(value) for value in values)
            called = self.layers[path].accumulator.first_call is not None
            found[path] = LayerMoments(
                n[..., None], mean, variance, (n > 0).astype("int64"), called
            )
        return found

    def _compile(self, paths: tuple[str, ...]) -> Run:
        """Return a function that runs the clone with training=True."""
        if keras.backend.backend() == "jax":
            self._require_unrolled()
        accumulators = [self.layers[path].accumulator for path in paths]

        def run(x: Nest) -> list[Tensors]:
            for accumulator in accumulators:
                accumulator.reset()
            self._clone(x, training=True)
            return [[ops.convert_to_tensor(v) for v in a.variables] for a in accumulators]

        accumulated = [v for a in accumulators for v in a.variables]
        return compile_run(run, [*self._clone.variables, *accumulated])

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


def _to_float64(tensor: Tensor) -> Array:
    """Copy a tensor to a float64 array."""
    return np.array(ops.convert_to_numpy(tensor), "float64")
