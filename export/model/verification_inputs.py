"""Make test inputs from real or random samples, and run the Keras model on them."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_norm.export.compare.arrays import contains_nan, numpy_dtype, where_finite
from keras_norm.export.compare.input_cases import masked_cases
from keras_norm.export.compare.samples import Case, Samples, read_samples
from keras_norm.export.errors import one_line
from keras_norm.export.model.masks import mask_fills
from keras_norm.export.model.random_texts import draw_texts
from keras_norm.export.model.reference_runner import reference_runner
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import TensorSpec, input_specs
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Arrays, TensorLike

# Pairs of test inputs and the Keras model's outputs for them.
Cases: TypeAlias = list[tuple[Case, Arrays]]

BATCH = 3
# Numbers of timesteps of random inputs. The first number that the model accepts is used: a
# convolution can need more timesteps.
LENGTHS = (7, 25, 90, 300)
# Further numbers of timesteps to try, if the inputs have one or two features. They may be raw
# audio: an encoder of audio needs a few hundred timesteps for each timestep of its outputs.
SIGNAL_LENGTHS = (3_000, 24_000)
LONG = 300

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


def verification_cases(model: keras.Model, data: TensorLike = None) -> Cases:
    """Make test inputs for a model, and run the model on them.

    Args:
        model: a functional or a built sequential model.
        data: real samples, arrays (samples, ...) by input name, or one array for one input. None
            for random numbers of the first kind in `DRAWS` for which all outputs are finite, and
            for random texts (`random_texts.draw_texts`). If no kind gives only finite outputs, the
            kind with the most finite values is used.

    Returns:
        Pairs of test inputs and outputs: one row of half the length, then three rows of the full
        length. If the model masks an input, three rows with each kind of masked timesteps follow.
        A static batch size replaces one and three rows. Without a dynamic time dimension there is
        one length.

    Raises:
        ValueError: the data do not fit the inputs, or the model raises for them, or an output has
            no finite value. Without data: the model raises, or an output has no finite value, for
            every kind of random numbers and every length.
    """
    run = reference_runner(model)
    return _random_lengths(model, run) if data is None else _real_cases(model, run, data)


def _real_cases(model: keras.Model, run: Runner, data: TensorLike) -> Cases:
    samples = read_samples(run.inputs, data)
    try:
        cases = _with_outputs(run, _cases_that_run(model, run, samples))
    except Exception as error:
        raise ValueError(f"the model cannot run the samples: {one_line(error)}") from error
    if problem := _no_finite_output(cases):
        raise ValueError(
            f"{problem} for the samples, so there is nothing to compare. Give samples for which "
            "the model returns finite numbers"
        )
    return cases


def _random_lengths(model: keras.Model, run: Runner) -> Cases:
    lengths = _lengths(run.inputs)
    last_error: Exception | None = None
    for length in lengths:
        # A layer may raise any error for a length that is too short: then try a longer length.
        try:
            return _random_cases(model, run, length, functools.partial(_cases, model))
        except Exception as error:
            last_error = error
    assert last_error is not None
    tried = f"; lengths {', '.join(map(str, lengths))}" if len(lengths) > 1 else ""
    raise ValueError(
        f"the model has no finite outputs for random inputs ({', '.join(DRAWS)}{tried}): "
        f"{one_line(last_error)}. Give real data: samples={{input name: array "
        "(samples, ...)}}"
    ) from last_error


def long_case(model: keras.Model) -> Cases:
    """Make a long random test input (`LONG` timesteps); return [] if the model fails on it."""
    run = reference_runner(model)
    try:
        return _random_cases(
            model, run, LONG, lambda samples: [samples.case(range(samples.batch or 1))]
        )
    # A layer with a maximum number of timesteps may raise any error. There is then no long test
    # input.
    except Exception:
        return []


def _lengths(specs: Mapping[str, TensorSpec]) -> tuple[int, ...]:
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


def _random_cases(
    model: keras.Model,
    run: Runner,
    length: int,
    make_cases: Callable[[Samples], Iterable[Case]],
) -> Cases:
    """Make test inputs from random numbers of the kind that gives the most finite outputs.

    Args:
        model: a functional or a built sequential model.
        run: the model's runner.
        length: number of timesteps.
        make_cases: a function that makes test inputs from samples.

    Raises:
        Exception: the model raised it for every kind.
        ValueError: an output has no finite value for any kind.
    """
    best: Cases = []
    best_quality, first_error = (0.0, False), None
    for kind in DRAWS:
        try:
            cases = _with_outputs(run, make_cases(_random_samples(model, length, kind)))
            if problem := _no_finite_output(cases):
                raise ValueError(problem)
        except Exception as error:
            first_error = first_error or error
            continue
        if (quality := _quality(cases)) > best_quality:
            best, best_quality = cases, quality
        if best_quality == (1.0, True):
            break
    if not best and first_error is not None:
        raise first_error
    return best


def _no_finite_output(cases: Cases) -> str | None:
    """Return a message about an output without finite values, or None if there is no such output.

    Test inputs with masked timesteps are skipped.
    """
    for case, outputs in cases:
        for name, y in outputs.items() if not case.masked else ():
            if not y.size:
                return f"output {name!r} is empty"
            if not where_finite(y).any():
                return f"output {name!r} is NaN or infinite everywhere"
    return None


def _quality(cases: Cases) -> tuple[float, bool]:
    """Rate test inputs by the outputs: share of finite values, and whether rows differ.

    The share is the smallest share of any output. Rows have to differ in every output.
    """
    plain = [outputs for case, outputs in cases if not case.masked]
    finite = min(where_finite(y).mean() for outputs in plain for y in outputs.values())
    varies = all(y.ndim == 0 or len(y) < 2 or (y != y[:1]).any() for y in plain[-1].values())
    return float(finite), bool(varies)


def _cases(model: keras.Model, samples: Samples) -> list[Case]:
    half = (samples.longest + 1) // 2 or None
    rows = range(samples.batch or BATCH)
    plain = [samples.case(range(samples.batch or 1), half), samples.case(rows)]
    return [*plain, *masked_cases(samples, mask_fills(model), BATCH)]


def _cases_that_run(model: keras.Model, run: Runner, samples: Samples) -> list[Case]:
    """Make test inputs of half and of full length from real samples.

    Half the length may be too short for a convolution. The first test input then has the full
    length.
    """
    short, *others = _cases(model, samples)
    try:
        fits = _no_finite_output(_with_outputs(run, [short])) is None
    except Exception:
        fits = False
    return [short if fits else samples.case(short.rows), *others]


def _with_outputs(run: Runner, cases: Iterable[Case]) -> Cases:
    """Run the model on test inputs, and return pairs of the inputs and outputs.

    Test inputs with masked timesteps are left out if an output is NaN: a mean over a fully masked
    row is NaN.
    """
    pairs = [(case, run(case.inputs)) for case in cases]
    return [(case, y) for case, y in pairs if not (case.masked and contains_nan(y))]


def _random_samples(model: keras.Model, length: int, kind: str) -> Samples:
    rng, specs = np.random.default_rng(0), input_specs(model)
    embeddings = [e for _, e in named_layers(model) if isinstance(e, keras.layers.Embedding)]
    low, high = WHOLE.get(kind, OTHER_WHOLE)
    # An id has to be valid for every embedding, so the smallest `input_dim` is the limit.
    high = min((embedding.input_dim for embedding in embeddings), default=high)
    ids = range(min(low, high - 1), high)
    drawn = {}
    for (name, spec), tensor in zip(specs.items(), model.inputs, strict=True):
        shape = [spec.shape[0] or BATCH + 1, *(length if n is None else n for n in spec.shape[1:])]
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
    """Draw random numbers for one input of a model.

    Args:
        spec: the input's spec.
        shape: shape of the array.
        ids: range of integer values.
        kind: key of `DRAWS`, for float values.
        rng: the random generator.

    Raises:
        ValueError: the input takes complex numbers.
    """
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
