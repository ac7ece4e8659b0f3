"""What an exporter runs a model and its file on: real samples, or random ones."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from keras_norm.export.comparing.cases import Case, Samples, masked_cases, read_samples
from keras_norm.export.comparing.elements import hold_nan
from keras_norm.export.comparing.masking import mask_fills
from keras_norm.export.errors import TextError, one_line
from keras_norm.export.runners import Arrays, KerasRunner
from keras_norm.export.signature import TensorSpec, input_specs
from keras_norm.walk import named_layers

# Cases, each with what the Keras model gives for it.
Cases = list[tuple[Case, Arrays]]

BATCH = 3
# The first that the model accepts is used (a convolution can need more steps).
LENGTHS = (7, 25, 90, 300)
LONG = 300


def verification_cases(model: keras.Model, data: Any = None) -> Cases:
    """Two batch sizes and two lengths, and where the model masks an input each way of padding it.

    Args:
        model: a functional or a built sequential model.
        data: real samples, arrays (samples, ...) by input name, or one array for one input; None
            for random ones.

    Returns:
        Batch 1 of half the length, batch 3 of the length, the same padded; a model of a fixed batch
        has that. Without time there is one length.

    Raises:
        TextError: an input or an output is text.
        ValueError: the data do not fit, or the model refuses them; or there are none, and the model
            runs at none of the lengths tried.
    """
    run = KerasRunner(model)
    if data is not None:
        samples = read_samples(run.inputs, data)
        try:
            return _answered(run, _cases_that_run(model, run, samples))
        except TextError:
            raise
        except Exception as error:
            raise ValueError(f"the model refuses the samples given: {one_line(error)}") from error
    refusal: Exception | None = None
    for length in LENGTHS:
        # Whatever a layer raises at a length it cannot take, a longer one may suit it.
        try:
            cases = _answered(run, _cases(model, _random_samples(model, length)))
        except TextError:
            raise
        except Exception as error:
            refusal = error
            continue
        if all(a.size for a in itertools.chain.from_iterable(o.values() for _, o in cases)):
            return cases
    raise ValueError(
        f"the model gives no output for random inputs of the lengths {LENGTHS}, so a file made "
        "from it cannot be verified"
    ) from refusal


def long_case(model: keras.Model) -> Cases:
    """One random sequence of `LONG` timesteps, or none where the model takes none so long."""
    samples = _random_samples(model, LONG)
    try:
        return _answered(KerasRunner(model), [samples.case(range(samples.batch or 1))])
    except Exception:  # whatever a layer raises, that may know so many timesteps and no more
        return []


def _cases(model: keras.Model, samples: Samples) -> list[Case]:
    half = (samples.longest + 1) // 2 or None
    rows = range(samples.batch or BATCH)
    plain = [samples.case(range(samples.batch or 1), half), samples.case(rows)]
    return [*plain, *masked_cases(samples, mask_fills(model), BATCH)]


def _cases_that_run(model: keras.Model, run: KerasRunner, samples: Samples) -> list[Case]:
    """The cases of real samples; half their length may be too short for a convolution."""
    short, *others = _cases(model, samples)
    try:
        fits = all(array.size for array in run(short.inputs).values())
    except Exception:
        fits = False
    return [short if fits else samples.case(short.rows), *others]


def _answered(run: KerasRunner, cases: Iterable[Case]) -> Cases:
    """What the model gives for each; a mean over a row that is masked everywhere is NaN."""
    known = [(case, run(case.inputs)) for case in cases]
    return [(case, answer) for case, answer in known if not (case.masked and hold_nan(answer))]


def _random_samples(model: keras.Model, length: int) -> Samples:
    rng, specs = np.random.default_rng(0), input_specs(model)
    embeddings = [e for _, e in named_layers(model) if isinstance(e, keras.layers.Embedding)]
    # Ids that every embedding knows; without one 0 and 1.
    ids = min((embedding.input_dim for embedding in embeddings), default=2)
    drawn = {n: _draw(spec, length, ids, rng) for n, spec in specs.items()}
    for name in _inputs_of(embeddings, model):  # which are numbers of any type
        whole = dataclasses.replace(specs[name], dtype="int32")
        drawn[name] = _draw(whole, length, ids, rng).astype(drawn[name].dtype)
    return read_samples(specs, drawn)


def _inputs_of(embeddings: list[keras.layers.Embedding], model: keras.Model) -> list[str]:
    """Names of the inputs that an embedding looks up as they are."""
    read = []
    for embedding in embeddings:
        with contextlib.suppress(AttributeError, ValueError):  # called never, or twice
            read.append(embedding.input)
    names = zip(input_specs(model), model.inputs, strict=True)
    return [name for name, tensor in names if any(tensor is of_layer for of_layer in read)]


def _draw(spec: TensorSpec, length: int, ids: int, rng: np.random.Generator) -> np.ndarray:
    """Random values for one input.

    Raises:
        TextError: it takes text.
    """
    if spec.dtype == "string":
        raise TextError(f'input "{spec.name}" takes text, of which none can be made up')
    batch, *sizes = spec.shape
    shape = [batch or BATCH + 1, *(length if size is None else size for size in sizes)]
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith(("float", "bfloat")):
        values: np.ndarray = rng.normal(size=shape)
    else:
        ids = min(ids, np.iinfo(spec.dtype).max)
        values = rng.integers(0, ids, shape)
        values[..., 0] = ids - 1  # no row is padding from its start to its end
    return values.astype("float32" if spec.dtype == "bfloat16" else spec.dtype)
