"""The suites: each measures variants on every shape of its settings, one shape after another."""

from collections.abc import Callable, Iterator

import keras
import numpy as np

from benchmarks import floor, memory, models, settings, tflite
from benchmarks.results import Measurement
from benchmarks.settings import INFERENCE, TRAINING, Settings, Shape
from benchmarks.timing import Variant, measure, of_group


def recurrent(config: Settings) -> Iterator[Measurement]:
    """Steps of the recurrent layers, of the references, and of the products alone."""
    shapes = {TRAINING: config.shapes, INFERENCE: (*config.shapes, *config.inference_only)}
    for mode, chosen in shapes.items():
        for shape in chosen:
            variants = {
                name: _recurrent_variant(name, shape, mode)
                for name in config.variants
                if _feasible(name, shape, config)
            }
            yield Measurement.of("recurrent", mode, shape, measure(variants, config.rounds))
            keras.backend.clear_session()


def _recurrent_variant(name: str, shape: Shape, mode: str) -> Variant:
    if name in settings.FLOORS:
        return floor.gemm_step(shape, mode, *settings.FLOORS[name])
    return models.recurrent_step(name, shape, mode)


def _feasible(name: str, shape: Shape, config: Settings) -> bool:
    if name in settings.FLOORS:
        return shape.batch % settings.FLOORS[name][1] == 0
    return name != settings.UNROLLED or shape.time <= config.longest_unrolled


def growth(config: Settings) -> Iterator[Measurement]:
    """LN-LSTM and Keras' LSTM at growing lengths, all lengths in turn."""
    for mode in (TRAINING, INFERENCE):
        variants = {
            (shape, name): models.recurrent_step(name, shape, mode)
            for shape in config.growth
            for name in (settings.LN_LSTM, settings.KERAS_LSTM)
        }
        timings = measure(variants, config.rounds)
        for shape in config.growth:
            yield Measurement.of("growth", mode, shape, of_group(timings, shape))
        keras.backend.clear_session()


def fit(config: Settings) -> Iterator[Measurement]:
    """Epochs of `model.fit` on NumPy arrays, with everything at its default."""
    for shape in config.fit:
        names = (settings.LN_LSTM, settings.KERAS_LSTM, settings.RNN_CELL)
        variants = {name: _epoch(name, shape, config.fit_samples) for name in names}
        yield Measurement.of("fit", "epoch", shape, measure(variants, config.rounds))
        keras.backend.clear_session()


def _epoch(name: str, shape: Shape, samples: int) -> Variant:
    """One epoch of a classifier; its last batch is smaller than the others."""
    inputs = keras.Input((shape.time, shape.inputs))
    x = models.recurrent_layer(name, shape, return_sequences=False)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(samples, shape.time, shape.inputs)).astype("float32")
    labels = rng.integers(0, 10, samples)
    warmup = models.WARM_CALLS if name in settings.OURS else 0
    return Variant(lambda: model.fit(data, labels, shape.batch, verbose=0), warmup)


def layers(config: Settings) -> Iterator[Measurement]:
    """The normalization layers by themselves, against Keras' own."""
    import keras_norm

    for mode in (TRAINING, INFERENCE):
        for shape in config.layers:
            x = models.normal(*shape)
            built = {}
            for name, peer in settings.PEERS.items():
                built[f"keras {peer}"] = getattr(keras.layers, peer)()
                if name != "TimestepBatchNormalization":
                    built[name] = getattr(keras_norm, name)()
                elif len(shape) == 3:
                    built[name] = keras_norm.TimestepBatchNormalization(max_timesteps=shape[1])
            variants = {
                name: Variant(models.layer_step(layer, x, mode)) for name, layer in built.items()
            }
            yield Measurement.of("layers", mode, shape, measure(variants, config.rounds))
            keras.backend.clear_session()


RUN: dict[str, Callable[[Settings], Iterator[Measurement]]] = {
    "recurrent": recurrent,
    "growth": growth,
    "fit": fit,
    "layers": layers,
    "tflite": tflite.latency,
    "memory": memory.peaks,
}
