"""Suites of the benchmark; each measures its variants on every shape."""

from collections.abc import Callable, Iterator

import keras

from benchmarks import (
    cold_start,
    matrix_products,
    memory,
    models,
    search,
    serving,
    settings,
    tflite,
)
from benchmarks.results import Measurement
from benchmarks.settings import INFERENCE, TRAINING, Settings, Shape
from benchmarks.timing import Variant, measure, of_group


def recurrent(config: Settings) -> Iterator[Measurement]:
    """Measure steps of recurrent layers, references and bare matrix products."""
    shapes = {TRAINING: config.shapes, INFERENCE: (*config.shapes, *config.inference_only)}
    for mode, chosen in shapes.items():
        for shape in chosen:
            variants = {
                name: _recurrent_variant(name, shape, mode)
                for name in config.variants
                if _feasible(name, shape)
            }
            yield Measurement.of("recurrent", mode, shape, measure(variants, config.rounds))
            keras.backend.clear_session()


def _recurrent_variant(name: str, shape: Shape, mode: str) -> Variant:
    if name in settings.PRODUCT_VARIANTS:
        return matrix_products.gemm_step(shape, mode, *settings.PRODUCT_VARIANTS[name])
    return models.recurrent_step(name, shape, mode)


def _feasible(name: str, shape: Shape) -> bool:
    return (
        name not in settings.PRODUCT_VARIANTS
        or shape.batch % settings.PRODUCT_VARIANTS[name][1] == 0
    )


def options(config: Settings) -> Iterator[Measurement]:
    """Measure steps of layers with an option, and of the layers without it."""
    names = dict.fromkeys((*settings.OPTIONS, *settings.OPTIONS.values()))
    for mode in (TRAINING, INFERENCE):
        for shape in config.shapes:
            variants = {name: models.recurrent_step(name, shape, mode) for name in names}
            yield Measurement.of("options", mode, shape, measure(variants, config.rounds))
            keras.backend.clear_session()


def growth(config: Settings) -> Iterator[Measurement]:
    """Measure LN-LSTM and Keras' LSTM at growing lengths, all lengths in turn."""
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


def eager(config: Settings) -> Iterator[Measurement]:
    """Measure steps without a graph."""
    for mode in (TRAINING, INFERENCE):
        for shape in config.eager:
            variants = {
                name: models.recurrent_step(name, shape, mode, eager=True)
                for name in config.choices
            }
            yield Measurement.of("eager", mode, shape, measure(variants, config.rounds))


def layers(config: Settings) -> Iterator[Measurement]:
    """Measure the normalization layers and the corresponding Keras layers."""
    import keras_norm

    for mode in (TRAINING, INFERENCE):
        for shape in config.layers:
            x = models.normal(*shape)
            built = {}
            for name, keras_name in settings.KERAS_LAYERS.items():
                built[f"keras {keras_name}"] = getattr(keras.layers, keras_name)()
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
    "first": cold_start.first,
    "cold": cold_start.cold,
    "predict": cold_start.predict,
    "recurrent": recurrent,
    "served": serving.latency,
    "eager": eager,
    "growth": growth,
    "layers": layers,
    "tflite": tflite.latency,
    "memory": memory.peaks,
    "search": search.trials,
    "options": options,
}
