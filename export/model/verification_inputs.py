"""Make the test inputs of an exporter from real or random samples, and run the model on them."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_norm.export.compare.element_differences import hold_nan
from keras_norm.export.compare.input_cases import Case, Samples, masked_cases, read_samples
from keras_norm.export.errors import TextError, one_line
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.masks import mask_fills
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.signature import TensorSpec, input_specs
from keras_norm.named_layers import named_layers

# Pairs of test inputs and the Keras model's outputs for them.
Cases = list[tuple[Case, Arrays]]

BATCH = 3
# Numbers of timesteps. The first number that the model accepts is used: a convolution can need more
# timesteps.
LENGTHS = (7, 25, 90, 300)
# Tried after LENGTHS for signals of one or two numbers per timestep: an encoder of raw audio needs
# a few hundred timesteps for each of its outputs.
SIGNAL_LENGTHS = (3_000, 24_000)
LONG = 300

# Kinds of random numbers, tried in turn until all outputs are finite (a logarithm needs positive
# inputs). Each function draws an array of a given shape.
DRAWS: dict[str, Callable[[np.random.Generator, Sequence[int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "between 0 and 1": lambda rng, shape: rng.uniform(size=shape),
    "from 1 to 255": lambda rng, shape: rng.integers(1, 256, shape),
    "negative": lambda rng, shape: -np.abs(rng.normal(size=shape)),
    "increasing": lambda rng, shape: np.abs(rng.normal(size=shape)).cumsum(min(1, len(shape) - 1)),
}
# Smallest value and exclusive upper bound of integer inputs: WHOLE for draws of the kind "normal",
# OTHER_WHOLE for any other kind. If the model has embeddings, their smallest `input_dim` replaces
# the upper bound.
WHOLE = {"normal": (0, 2)}
OTHER_WHOLE = (1, 10)


def verification_cases(model: keras.Model, data: Any = None) -> Cases:
    """Make test inputs for a model, and run the model on them.

    Args:
        model: a functional or a built sequential model.
        data: real samples, arrays (samples, ...) by input name, or one array for one input. None
            for random numbers of the first kind in `DRAWS` for which all outputs are finite. If no
            kind gives only finite outputs, the kind with the most finite values is used.

    Returns:
        Pairs of test inputs and outputs: one row of half the length, then three rows of the full
        length. If the model masks an input, three rows with each kind of masked timesteps follow.
        A static batch size replaces one and three rows. Without a dynamic time dimension there is
        one length.

    Raises:
        TextError: an input or an output is text.
        ValueError: the data do not fit the inputs, or the model raises for them, or an output has
            no finite value. Without data: the model raises, or an output has no finite value, for
            every kind of random numbers and every length.
    """
    run = KerasRunner(model)
    if data is not None:
        samples = read_samples(run.inputs, data)
        try:
            cases = _answered(run, _cases_that_run(model, run, samples))
        except TextError:
            raise
        except Exception as error:
            raise ValueError(f"the model refuses the samples given: {one_line(error)}") from error
        if problem := _without_numbers(cases):
            raise ValueError(
                f"{problem} for the samples given, so nothing can be compared. Give samples for "
                "which the model gives numbers"
            )
        return cases
    lengths = _lengths(run.inputs)
    refusal: Exception | None = None
    for length in lengths:
        # A layer may raise any error for a length that is too short: then try a longer length.
        try:
            return _random_cases(model, run, length, functools.partial(_cases, model))
        except TextError:
            raise
        except Exception as error:
            refusal = error
    assert refusal is not None
    tried = f"; lengths {', '.join(map(str, lengths))}" if len(lengths) > 1 else ""
    raise ValueError(
        f"the model gives no numbers for random inputs ({', '.join(DRAWS)}{tried}): "
        f"{one_line(refusal)}. Give real data: samples={{input name: array (samples, ...)}}"
    ) from refusal


def long_case(model: keras.Model) -> Cases:
    """Make one random sequence of `LONG` timesteps; empty if the model cannot run that length."""
    run = KerasRunner(model)
    try:
        return _random_cases(model, run, LONG, lambda s: [s.case(range(s.batch or 1))])
    except Exception:  # a layer with a maximum number of timesteps may raise any error
        return []


def _lengths(specs: Mapping[str, TensorSpec]) -> tuple[int, ...]:
    """Return the numbers of timesteps to try, in order."""
    dynamic = [spec for spec in specs.values() if None in spec.shape[1:]]
    if not dynamic:
        return LENGTHS[:1]
    signals = all(
        spec.dtype.startswith(("float", "bfloat"))
        and None not in spec.shape[2:]
        and math.prod(size or 0 for size in spec.shape[2:]) <= 2
        for spec in dynamic
    )
    return LENGTHS + SIGNAL_LENGTHS * signals


def _random_cases(
    model: keras.Model,
    run: KerasRunner,
    length: int,
    cases_of: Callable[[Samples], Iterable[Case]],
) -> Cases:
    """Make random test inputs of the kind for which most output values are finite.

    Args:
        model: a functional or a built sequential model.
        run: the model's runner.
        length: number of timesteps.
        cases_of: a function that makes test inputs from samples.

    Raises:
        Exception: the model raised it for every kind.
        ValueError: an output has no finite value for any kind.
    """
    found: Cases = []
    best, refusal = (0.0, False), None
    for kind in DRAWS:
        try:
            cases = _answered(run, cases_of(_random_samples(model, length, kind)))
            if problem := _without_numbers(cases):
                raise ValueError(problem)
        except TextError:
            raise
        except Exception as error:
            refusal = refusal or error
            continue
        if (worth := _worth(cases)) > best:
            found, best = cases, worth
        if best == (1.0, True):
            break
    if not found and refusal is not None:
        raise refusal
    return found


def _without_numbers(cases: Cases) -> str | None:
    """Return a message about an output without finite values, or None if there is no such output.

    Test inputs with masked timesteps are skipped.
    """
    for case, answer in cases:
        for name, y in answer.items() if not case.masked else ():
            if not y.size:
                return f"output {name!r} is empty"
            if not np.isfinite(y).any():
                return f"output {name!r} is NaN or infinite everywhere"
    return None


def _worth(cases: Cases) -> tuple[float, bool]:
    """Return the smallest share of finite values of any output, and whether all outputs vary."""
    plain = [answer for case, answer in cases if not case.masked]
    finite = min(np.isfinite(y).mean() for answer in plain for y in answer.values())
    varies = all(y.ndim == 0 or len(y) < 2 or (y != y[:1]).any() for y in plain[-1].values())
    return float(finite), bool(varies)


def _cases(model: keras.Model, samples: Samples) -> list[Case]:
    half = (samples.longest + 1) // 2 or None
    rows = range(samples.batch or BATCH)
    plain = [samples.case(range(samples.batch or 1), half), samples.case(rows)]
    return [*plain, *masked_cases(samples, mask_fills(model), BATCH)]


def _cases_that_run(model: keras.Model, run: KerasRunner, samples: Samples) -> list[Case]:
    """Make test inputs of real samples, with the full length if the model cannot run half of it.

    Half the length may be too short for a convolution.
    """
    short, *others = _cases(model, samples)
    try:
        fits = _without_numbers(_answered(run, [short])) is None
    except Exception:
        fits = False
    return [short if fits else samples.case(short.rows), *others]


def _answered(run: KerasRunner, cases: Iterable[Case]) -> Cases:
    """Pair test inputs with the model's outputs.

    Test inputs with masked timesteps are left out if an output is NaN: a mean over a fully masked
    row is NaN.
    """
    known = [(case, run(case.inputs)) for case in cases]
    return [(case, answer) for case, answer in known if not (case.masked and hold_nan(answer))]


def _random_samples(model: keras.Model, length: int, kind: str) -> Samples:
    rng, specs = np.random.default_rng(0), input_specs(model)
    embeddings = [e for _, e in named_layers(model) if isinstance(e, keras.layers.Embedding)]
    low, high = WHOLE.get(kind, OTHER_WHOLE)
    # The ids have to be valid for every embedding.
    high = min((embedding.input_dim for embedding in embeddings), default=high)
    ids = range(min(low, high - 1), high)
    drawn = {n: _draw(spec, length, ids, kind, rng) for n, spec in specs.items()}
    for name in _inputs_of(embeddings, model):  # ids may have any dtype, also a float dtype
        whole = dataclasses.replace(specs[name], dtype="int32")
        drawn[name] = _draw(whole, length, ids, kind, rng).astype(drawn[name].dtype)
    return read_samples(specs, drawn)


def _inputs_of(embeddings: list[keras.layers.Embedding], model: keras.Model) -> list[str]:
    """Return the names of the inputs that feed an embedding directly."""
    read = []
    for embedding in embeddings:
        with contextlib.suppress(AttributeError, ValueError):  # never called, or called twice
            read.append(embedding.input)
    names = zip(input_specs(model), model.inputs, strict=True)
    return [name for name, tensor in names if any(tensor is of_layer for of_layer in read)]


def _draw(
    spec: TensorSpec, length: int, ids: range, kind: str, rng: np.random.Generator
) -> np.ndarray:
    """Draw random values for one input.

    Args:
        spec: the input's spec.
        length: number of timesteps, for every dynamic dimension.
        ids: range of integer values.
        kind: key of `DRAWS`, for float values.
        rng: the random generator.

    Raises:
        TextError: the input takes text.
        ValueError: the input takes complex numbers.
    """
    if spec.dtype == "string":
        raise TextError(f'input "{spec.name}" takes text, of which none can be made up')
    batch, *sizes = spec.shape
    shape = [batch or BATCH + 1, *(length if size is None else size for size in sizes)]
    if spec.dtype.startswith("complex"):
        raise ValueError(f'input "{spec.name}" takes {spec.dtype}, and only real ones are drawn')
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith(("float", "bfloat")):
        values = DRAWS[kind](rng, shape)
    else:
        most = min(ids[-1], np.iinfo(spec.dtype).max - 1)
        values = rng.integers(ids[0], most + 1, shape)
        values[..., 0] = most  # so that no row is fully masked
    return values.astype("float32" if spec.dtype == "bfloat16" else spec.dtype)
