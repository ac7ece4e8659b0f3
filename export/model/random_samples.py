"""Draw random samples for a model's inputs: numbers, and texts of words in its vocabularies."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from keras_norm.export.compare.arrays import numpy_dtype, to_bytes
from keras_norm.export.compare.samples import Samples, read_samples
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.signature import input_specs
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Tensor

ROWS = 4
# Numbers of timesteps of random inputs, tried in this order until the model accepts one: a
# convolution may need more timesteps than 7.
LENGTHS = (7, 25, 90, 300)
# More numbers of timesteps to try for inputs with one or two features, such as raw audio. An audio
# encoder needs a few hundred timesteps of its inputs for one timestep of its outputs.
SIGNAL_LENGTHS = (3_000, 24_000)

# Kinds of random numbers, tried in this order until all outputs are finite. For example, a model
# with a logarithm needs positive inputs. Each function draws an array of a given shape.
DRAWS: dict[str, Callable[[np.random.Generator, Sequence[int]], Array]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "between 0 and 1": lambda rng, shape: rng.uniform(size=shape),
    "from 1 to 255": lambda rng, shape: rng.integers(1, 256, shape),
    "negative": lambda rng, shape: -np.abs(rng.normal(size=shape)),
    "increasing": lambda rng, shape: np.abs(rng.normal(size=shape)).cumsum(min(1, len(shape) - 1)),
}
# Ranges of random integers: (smallest value, exclusive upper bound). `WHOLE["normal"]` is the range
# for the kind "normal", and `OTHER_WHOLE` is the range for all other kinds. In a model with
# Embeddings the upper bound is their smallest `input_dim` instead.
WHOLE = {"normal": (0, 2)}
OTHER_WHOLE = (1, 10)

# Words for a model without a vocabulary, such as a model that hashes texts.
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
# A word that is in no vocabulary. Its letter "ü" takes two bytes in UTF-8.
UNKNOWN = "zzqxünbekannt"
# Sample 1 has an unknown word in each text, and sample 2 has empty texts (sample 0 is the first).
UNKNOWN_ROW, EMPTY_ROW = 1, 2


def lengths_to_try(specs: Mapping[str, TensorSpec]) -> tuple[int, ...]:
    """Return the lengths of random inputs to try: numbers of timesteps, or of words in a text."""
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
            # Unknown words and empty texts occur only for the kind "normal", which is tried first.
            # The other kinds have none, because a layer may refuse unknown words or empty texts.
            drawn[name] = draw_texts(model, tensor, shape, length, kind != "normal", rng)
        else:
            drawn[name] = _draw(spec, shape, ids, kind, rng)
    # An Embedding needs whole numbers as ids, even if the dtype of its input is float32.
    for (name, spec), tensor in zip(specs.items(), model.inputs, strict=True):
        if any(_feeds(tensor, embedding) for embedding in embeddings):
            whole, old = dataclasses.replace(spec, dtype="int32"), drawn[name]
            drawn[name] = _draw(whole, old.shape, ids, kind, rng).astype(old.dtype)
    return read_samples(specs, drawn)


def _feeds(tensor: Tensor, layer: keras.layers.Layer) -> bool:
    """Return whether an input of a model feeds a layer directly."""
    # `layer.input` raises an error if the layer is called twice or never. Then return False.
    with contextlib.suppress(AttributeError, ValueError):
        return layer.input is tensor
    return False


def _draw(
    spec: TensorSpec, shape: Sequence[int], ids: range, kind: str, rng: np.random.Generator
) -> Array:
    """Draw an array for one input: floats of a kind in `DRAWS`, integers in the range `ids`."""
    if spec.dtype.startswith("complex"):
        raise ValueError(
            f'input "{spec.name}" takes {spec.dtype}, but random samples are real numbers'
        )
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    dtype = numpy_dtype(spec.dtype)
    if dtype.kind == "f":
        values = DRAWS[kind](rng, shape)
    else:
        most = min(ids[-1], np.iinfo(dtype.name).max - 1)
        values = rng.integers(ids[0], most + 1, shape)
        # Put the largest integer into every sequence: an Embedding may mask zeros, and a sequence
        # of zeros would have no unmasked timestep.
        values[..., 0] = most
    return values.astype(dtype)


def draw_texts(
    model: keras.Model,
    tensor: Tensor,
    shape: Sequence[int],
    words: int,
    known: bool,
    rng: np.random.Generator,
) -> Array:
    """Draw an array of texts for one input of a model.

    The words come from the vocabulary of the `TextVectorization` or `StringLookup` layer that the
    input feeds; from all vocabularies of the model, if the input feeds another layer; or from
    `WORDS`. `TextVectorization` gets texts of several words, unless it does not split texts. Any
    other layer gets one word for each text.

    Args:
        model: a functional or a built sequential model.
        tensor: the input, an element of `model.inputs`.
        shape: shape of the array; the first axis is the batch.
        words: number of words of a text; every second row has half as many.
        known: whether every word is in the vocabulary. If not, `UNKNOWN_ROW` has an unknown word,
            and the texts of `EMPTY_ROW` are empty.
        rng: the random generator.

    Returns:
        Array of bytes objects.
    """
    layers = _text_layers(model, tensor)
    found = (layer.get_vocabulary(include_special_tokens=False) for layer in layers)
    vocabulary = [word for known_words in found for word in known_words if word] or list(WORDS)
    # Every word of the vocabulary occurs before a word occurs again.
    following = itertools.cycle(rng.permutation(vocabulary).tolist())
    separator = _separator(layers)
    texts = np.empty(shape, object)
    for index in np.ndindex(*shape):
        count = 1 if separator is None else words - index[0] % 2 * (words // 2)
        drawn = list(itertools.islice(following, count))
        if index[0] == UNKNOWN_ROW and not known:
            drawn[-1] = UNKNOWN
        if index[0] == EMPTY_ROW and not known:
            drawn = []
        texts[index] = (separator or "").join(drawn)
    return to_bytes(texts)


def _text_layers(model: keras.Model, tensor: Tensor) -> list[keras.layers.Layer]:
    """Return the text layers that an input feeds directly; if there are none, all text layers."""
    layers = [
        layer
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.TextVectorization | keras.layers.StringLookup)
    ]
    return [layer for layer in layers if _feeds(tensor, layer)] or layers


def _separator(layers: Sequence[keras.layers.Layer]) -> str | None:
    """Return " " if layers split texts into words, "" for characters; None if they do not split."""
    for layer in layers:
        if isinstance(layer, keras.layers.TextVectorization):
            split = layer.get_config()["split"]
            return {"character": "", None: None}.get(split, " ") if not callable(split) else " "
    return None
