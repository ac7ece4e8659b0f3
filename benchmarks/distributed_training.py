"""Programs that `benchmarks.distributed` runs in groups of processes or on logical devices."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

import keras_norm
from keras_norm.typing import Array
from tests.distributed import loops
from tests.distributed.child import Place

FEATURES = 16


@dataclasses.dataclass(frozen=True)
class Task:
    """Data and models of a training.

    Attributes:
        names: names of the layers, as `create_layer` takes them.
        sizes: rows of all replicas in each batch.
        timesteps: number of timesteps.
        units: units of recurrent layers.
        shortest: length of the shortest sequence.
    """

    names: Sequence[str]
    sizes: Sequence[int]
    timesteps: int = 6
    units: int = 8
    shortest: int = 1

    def draw(self) -> tuple[Array, Array]:
        """Draw sequences, padded with zeros on the right, and targets.

        Fewer rows are the first of more rows.
        """
        rng = [np.random.default_rng(seed) for seed in range(3)]
        rows = sum(self.sizes)
        x = rng[0].normal(1.0, 2.0, (rows, self.timesteps, FEATURES))
        lengths = rng[1].integers(self.shortest, self.timesteps + 1, (rows, 1))
        unmasked = np.arange(self.timesteps) < lengths
        y = rng[2].normal(size=(rows, 1))
        return (x * unmasked[..., None]).astype("float32"), y.astype("float32")

    def create_layer(self, name: str) -> keras.layers.Layer:
        """Create a layer by its name, or by "NAME, synchronized"."""
        name, comma, _ = name.partition(", ")
        options: dict[str, Any] = {"synchronized": True} if comma else {}
        layers: dict[str, Callable[[], keras.layers.Layer]] = {
            "LayerNormLSTM": lambda: keras_norm.LayerNormLSTM(self.units),
            "BatchNormalization": lambda: keras_norm.BatchNormalization(**options),
            "TimestepBatchNormalization": lambda: keras_norm.TimestepBatchNormalization(
                self.timesteps, **options
            ),
            "BatchNormLSTM": lambda: keras_norm.BatchNormLSTM(
                self.units, self.timesteps, **options
            ),
            "keras BatchNormalization": lambda: keras.layers.BatchNormalization(**options),
        }
        return layers[name]()

    def build(self, name: str) -> keras.Model:
        """Build a model with a layer, and the same random weights on every backend."""
        keras.utils.set_random_seed(0)  # JAX needs equal seeds in all processes
        layer = self.create_layer(name)
        is_recurrent = isinstance(layer, keras.layers.RNN)
        pool = [] if is_recurrent else [keras.layers.GlobalAveragePooling1D()]
        # The gradient of the first Dense flows through the statistics.
        layers = [keras.layers.Masking(), keras.layers.Dense(FEATURES), layer, *pool]
        layers.append(keras.layers.Dense(1, name="output"))
        model = keras.Sequential([keras.Input((None, FEATURES)), *layers])
        rng = np.random.default_rng(0)
        for weight in model.trainable_variables:
            weight.assign(rng.uniform(-1.0, 1.0, weight.shape) / np.sqrt(weight.shape[0]))
        return model

    def steps(self, place: Place, name: str) -> Iterator[dict[str, Array]]:
        """Train; yield {path: copies of this process} of all weights after each batch."""
        x, y = self.draw()
        for _, weights in loops.train(place, lambda: self.build(name), x, y, self.sizes):
            yield weights

    def loss(self, weights: dict[str, Array], name: str) -> float:
        """Return the mean squared error at inference, with weights of `train`."""
        model, last = self.build(name), f"{name}/{len(self.sizes) - 1}/"
        model.set_weights([copies[0] for key, copies in weights.items() if key.startswith(last)])
        x, y = self.draw()
        return float(np.mean((model.predict(x, verbose=0) - y) ** 2))


def train(place: Place, model_devices: Array, **task: Array) -> dict[str, Array]:
    """Train a model with each layer of a `Task`.

    With `model_devices` above 1, JAX divides kernels over as many devices.

    Returns:
        {"LAYER/BATCH/INDEX weight or statistic": copies of this process}. A layer that a backend
        refuses, because it has synchronized=True, is left out.
    """
    if model_devices > 1:
        keras.distribution.set_distribution(_model_parallel(int(model_devices)))
    found, read = {}, _read(task)
    for name in read.names:
        try:
            for batch, weights in enumerate(read.steps(place, name)):
                for index, (path, copies) in enumerate(weights.items()):
                    kind = "statistic" if "/moving_" in path else "weight"
                    found[f"{name}/{batch}/{index} {kind}"] = copies
        except (NotImplementedError, ValueError) as error:
            if "synchronized=True" not in str(error):
                raise
    return found


def measure_costs(place: Place, **task: Array) -> dict[str, Array]:
    """Return {LAYER: (CPU seconds of this process, bytes on loopback)} for each update."""
    found, read = {}, _read(task)
    for name in read.names:
        ends = []
        for _ in read.steps(place, name):
            lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
            (received,) = (int(line.split()[1]) for line in lines if "lo:" in line)
            ends.append((time.process_time(), received))
        updates = len(ends) - 2  # the first update compiles
        found[name] = (np.array(ends[-1]) - np.array(ends[1])) / updates
    return found


def _read(arrays: dict[str, Array]) -> Task:
    return Task(**{name: array.tolist() for name, array in arrays.items()})


def _model_parallel(devices: int) -> keras.distribution.ModelParallel:
    """Divide the columns of kernels over devices, and batches over groups of devices."""
    names = keras.distribution.list_devices()
    shape = (len(names) // devices, devices)
    layout = keras.distribution.LayoutMap(
        keras.distribution.DeviceMesh(shape, ("batch", "model"), names)
    )
    layout["(dense|lstm).*kernel"] = (None, "model")  # not that of "output", with one column
    return keras.distribution.ModelParallel(
        layout_map=layout, batch_dim_name="batch", auto_shard_dataset=False
    )
