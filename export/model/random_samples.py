"""Draw random samples for a model's inputs."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from keras_norm.export.compare.arrays import numpy_dtype
from keras_norm.export.compare.samples import Samples, read_samples
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.model.random_texts import draw_texts
from keras_norm.export.signature import input_specs
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array

ROWS = 4
# Numbers of timesteps of random inputs. The first number that the model accepts is used: a
# convolution can need more timesteps.
LENGTHS = (7, 25, 90, 300)
# Further numbers of timesteps to try, if the inputs have one or two features. They may be raw
# audio: an encoder of audio needs a few hundred timesteps for each timestep of its outputs.
SIGNAL_LENGTHS = (3_000, 24_000)

# Kinds of random numbers, tried in turn until all outputs are finite (a logarithm needs positive
# inputs). Each function draws an array of a given shape.
DRAWS: dict[str, Callable[[np.random.Generator, Sequence[int]], Array]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "between 0 and 1": lambda rng, shape: rng.uniform(size=shape),
    "from 1 to 255": lambda rng, shape: rng.integers(1, 256, shape),
    "negative": lambda rng, shape: -np.abs(rng.normal(size=shape)),
    "increasing": lambda rng, shape: np.abs(rng.normal(size=shape)).cumsum(min(1, len(shape) - 1)),
}
# Ranges of random integer inputs, as (smallest value, exclusive upper bound). `WHOLE` is the range
# for the kind "normal" of `DRAWS`, `OTHER_WHOLE` for every other kind. In a model with embeddings
# the upper bound is the smallest `input_dim` of an embedding.
WHOLE = {"normal": (0, 2)}
OTHER_WHOLE = (1, 10)


def lengths_to_try(specs: Mapping[str, TensorSpec]) -> tuple[int, ...]:
    """Return the numbers of timesteps, and of words in a text, to try in random inputs."""
    dynamic = [s for s in specs.values() if None in s.shape[1:] or s.dtype == "string"]
    if not dynamic:
        return LENGTHS[:1]
    signals = all(
        "float" in spec.dtype
        and None not in spec.shape[2:]
        and math.prod(size or 0 for size in spec.shape[2:]) <= 2
        for spec in dynamic
    )
    return LENGTHS + SIGNAL_LENGTHS * signals


def draw_samples(model: keras.Model, length: int, kind: str) -> Samples:
    """Draw samples for all inputs of a model, with a fixed seed.

    Args:
        model: a functional or a built sequential model.
        length: number of timesteps, and of words in a text.
        kind: key of `DRAWS`.

    Raises:
        ValueError: an input takes complex numbers.
    """
    rng, specs = np.random.default_rng(0), input_specs(model)
    embeddings = [e for _, e in named_layers(model) if isinstance(e, keras.layers.Embedding)]
    low, high = WHOLE.get(kind, OTHER_WHOLE)
    # An id has to be valid for every embedding, so the smallest `input_dim` is the limit.
    high = min((embedding.input_dim for embedding in embeddings), default=high)
    ids = range(min(low, high - 1), high)
    drawn = {}
    for (name, spec), tensor in zip(specs.items(), model.inputs, strict=True):
        shape = [spec.shape[0] or ROWS, *(length if n is None else n for n in spec.shape[1:])]
        if spec.dtype == "string":
            # A layer may refuse unknown words and empty texts: other kinds have known words only.
            drawn[name] = draw_texts(model, tensor, shape, length, kind != "normal", rng)
        else:
            drawn[name] = _draw(spec, shape, ids, kind, rng)
    # An Embedding needs whole numbers as ids, even if the dtype of its input is float32.
    for name in _inputs_of(embeddings, model):
        whole = dataclasses.replace(specs[name], dtype="int32")
        shape = list(drawn[name].shape)
        drawn[name] = _draw(whole, shape, ids, kind, rng).astype(drawn[name].dtype)
    return read_samples(specs, drawn)


def _inputs_of(embeddings: list[keras.layers.Embedding], model: keras.Model) -> list[str]:
    """Return the names of the inputs that feed an embedding directly."""
    ids = []
    for embedding in embeddings:
        # `embedding.input` raises an error if the model does not call the embedding exactly once.
        with contextlib.suppress(AttributeError, ValueError):
            ids.append(embedding.input)
    names = zip(input_specs(model), model.inputs, strict=True)
    return [name for name, tensor in names if any(tensor is one for one in ids)]


def _draw(
    spec: TensorSpec, shape: Sequence[int], ids: range, kind: str, rng: np.random.Generator
) -> Array:
    """Draw an array for one input: floats of a kind in `DRAWS`, integers in the range `ids`."""
    if spec.dtype.startswith("complex"):
        raise ValueError(f'input "{spec.name}" takes {spec.dtype}: only real numbers can be drawn')
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    dtype = numpy_dtype(spec.dtype)
    if dtype.kind == "f":
        values = DRAWS[kind](rng, shape)
    else:
        most = min(ids[-1], np.iinfo(dtype.name).max - 1)
        values = rng.integers(ids[0], most + 1, shape)
        # Put the largest integer into every row: an Embedding may mask 0, and no row of the test
        # inputs must be fully masked.
        values[..., 0] = most
    return values.astype(dtype)
