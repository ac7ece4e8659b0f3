"""Run a Keras model on test inputs: a few for an export, more for a check."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

from keras_norm.export.compare.arrays import contains_nan, magnitude, where_finite
from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.input_cases import (
    MASKED_BATCH,
    edge_cases,
    make_cases,
    masked_cases,
)
from keras_norm.export.compare.samples import Case, Samples, read_samples
from keras_norm.export.errors import one_line
from keras_norm.export.model.masks import mask_fills, masked_later
from keras_norm.export.model.random_samples import DRAWS, draw_samples, lengths_to_try
from keras_norm.export.model.tolerance_factors import layer_depth, model_precision, timestep_counter
from keras_norm.export.runtimes.runner import Run, Runner
from keras_norm.typing import Arrays, TensorLike

# Batch size of the second and later test inputs of an export. The first has the batch size 1.
ROWS = 3
# Number of timesteps of the long test input. It tests models with a layer, such as a convolution,
# whose output at a timestep depends on several timesteps.
LONG = 300


def expected_for_export(model: keras.Model, data: TensorLike, run: Runner) -> Expected:
    """Make the test inputs of an export, and run the model on them.

    The test inputs are one row of half the length, then three rows of the full length. If the model
    masks an input, three rows with each kind of masked timesteps follow. A static batch size
    replaces one and three rows. Without a dynamic time dimension there is one length.

    Args:
        model: a functional or a built sequential model.
        data: real samples, arrays (samples, ...) by input name, or one array for one input. None
            for random numbers of the first kind in `DRAWS` for which all outputs are finite, and
            for random texts (`draw_texts`). If no kind gives only finite outputs, the
            kind with the most finite values is used.
        run: runner of the model.

    Raises:
        ValueError: the data do not fit the inputs, or the model raises for them, or an output has
            no finite value. Without data: the model raises, or an output has no finite value, for
            every kind of random numbers and every length.
    """
    if data is None:
        lengths = lengths_to_try(run.inputs)
        try:
            cases = _run_random(model, run, lengths, lambda samples: _few_cases(model, samples))
        except Exception as error:
            tried = f"; lengths {', '.join(map(str, lengths))}" if len(lengths) > 1 else ""
            raise ValueError(
                f"the model has no finite outputs for random inputs ({', '.join(DRAWS)}{tried}): "
                f"{one_line(error)}. Give real data: samples={{input name: array (samples, ...)}}"
            ) from error
        return measure_expected(model, cases, random=True)
    samples = read_samples(run.inputs, data)
    short, *others = _few_cases(model, samples)
    try:
        # The test input `short` has half the timesteps of the samples. If the model cannot run so
        # few timesteps, for example in a convolution, run the rows of `short` with all timesteps.
        ran, _ = _run_cases(run, [short, *others], lambda case: case.length == samples.length)
        if ran[0].inputs is not short.inputs:
            ran[:0] = _run_cases(run, [samples.case(short.rows)])[0]
    except Exception as error:
        raise ValueError(f"the model cannot run the samples: {one_line(error)}") from error
    if problem := _first_problem(ran):
        raise ValueError(
            f"{problem} for the samples, so there is nothing to compare. Give samples for which "
            "the model returns finite numbers"
        )
    return measure_expected(model, ran)


def long_sequence(model: keras.Model, run: Run) -> Expected | None:
    """Run a model on one random sequence of `LONG` timesteps; return None if the model fails."""
    try:
        cases = _run_random(model, run, [LONG], lambda x: [x.case(range(x.batch or 1))])
    # A layer with a maximum number of timesteps may raise any error.
    except Exception:
        return None
    return measure_expected(model, cases, random=True)


def expected_for_check(
    model: keras.Model,
    samples: Samples,
    batch_sizes: Sequence[int] | None,
    lengths: Sequence[int] | None,
    run: Run,
) -> Expected:
    """Make the test inputs of a check, and run the model on them.

    A test input is left out if the model cannot run it or returns no usable outputs. A convolution
    or a pooling layer may need more timesteps than the shortest test input has. It then raises, or
    gives an empty output, NaN, or infinity (the maximum of no values). The length of the data and
    the lengths that the user gave must run. A mean over a fully masked row is NaN: this is not an
    error of an artifact. An edge case, such as a row of zeros, is left out too if an output is NaN
    or infinite, such as a logarithm of zero: a comparison would say nothing about a file.

    Args:
        model: a functional or Sequential model.
        samples: the validated data.
        batch_sizes: see `keras_norm.export.compare.input_cases.make_cases`.
        lengths: see `keras_norm.export.compare.input_cases.make_cases`.
        run: runner of the model.

    Raises:
        ValueError: sizes or lengths do not fit, or the model cannot run them.
    """
    fills, cases = mask_fills(model), make_cases(samples, batch_sizes, lengths)
    masked = masked_cases(samples, fills, min(MASKED_BATCH, max(len(case.rows) for case in cases)))
    required = lengths is not None
    ran, notes = _run_cases(
        run, [*cases, *masked], lambda case: required or case.length == samples.length
    )
    edges = []
    left_out = []
    for case in edge_cases(samples):
        try:
            outputs = run(case.inputs)
        # A layer may raise any error for an edge case, such as a row of zeros or unknown words.
        except Exception:
            outputs = {}
        if outputs and all(where_finite(array).all() for array in outputs.values()):
            edges.append(dataclasses.replace(case, outputs=outputs))
        else:
            left_out.append(case.name)
    if left_out:
        notes.append(
            f"{'; '.join(left_out)}: left out, because the Keras model cannot run them, or its "
            "outputs are NaN or infinite"
        )
    later = [
        f"input {name!r} has no masked timesteps in any test input, because other layers change "
        f"{name!r} before layer {layer!r} masks it"
        for name, layer in masked_later(model, fills).items()
    ]
    return measure_expected(model, ran, edges=tuple(edges), notes=(*later, *notes))


def measure_expected(model: keras.Model, cases: Sequence[Case], **fields: Any) -> Expected:
    """Return `Expected`: the test inputs, the model's outputs, and four measures for tolerances.

    The measures are the model's precision, its number of layers, its number of timesteps, and the
    largest absolute value of each output.

    Args:
        model: a functional or a built sequential model.
        cases: the test inputs, with the model's outputs.
        fields: further fields of `Expected`.
    """
    outputs = cases[0].outputs
    return Expected(
        cases=tuple(cases),
        precision=model_precision(model, outputs),
        layers=layer_depth(model),
        timesteps=max(map(timestep_counter(model), (case.inputs for case in cases))),
        scales={name: max(magnitude(case.outputs[name]) for case in cases) for name in outputs},
        **fields,
    )


def _few_cases(model: keras.Model, samples: Samples) -> list[Case]:
    half = (samples.longest + 1) // 2 or None
    short = samples.case(range(samples.batch or 1), half)
    whole = samples.case(range(samples.batch or ROWS))
    return [short, whole, *masked_cases(samples, mask_fills(model), ROWS)]


def _run_random(
    model: keras.Model,
    run: Run,
    lengths: Iterable[int],
    make_cases: Callable[[Samples], Sequence[Case]],
) -> list[Case]:
    """Run a model on random numbers: "normal", "positive", ... until all outputs are finite.

    The kinds of random numbers are the keys of `DRAWS`. If no kind gives only finite outputs, use
    the kind with the most finite outputs.

    The random numbers have the first of `lengths` for which a kind gives finite outputs: a
    convolution may need more timesteps than the shorter lengths have. If no length gives finite
    outputs, the function raises the first error of the last length.
    """
    for length in lengths:
        best: list[Case] = []
        quality, first_error = (0.0, False), None
        for kind in DRAWS:
            try:
                cases, _ = _run_cases(run, make_cases(draw_samples(model, length, kind)))
                if problem := _first_problem(cases):
                    raise ValueError(problem)
            # A layer may raise any error, for example if the sequences are too short.
            except Exception as error:
                first_error = first_error or error
                continue
            if _quality(cases) > quality:
                best, quality = cases, _quality(cases)
            if quality == (1.0, True):
                break
        if best:
            return best
    assert first_error is not None
    raise first_error


def _run_cases(
    run: Run, cases: Iterable[Case], is_required: Callable[[Case], bool] = lambda case: True
) -> tuple[list[Case], list[str]]:
    """Run a model on test inputs, and leave out optional test inputs that fail.

    An optional test input fails if the model raises an error, if an output is empty, or if an
    output has a NaN or no finite value. A required test input with masked timesteps is left out if
    an output has a NaN.

    Returns:
        The test inputs with outputs, and a note on each test input that was left out.

    Raises:
        ValueError: the model cannot run a required test input.
    """
    ran: list[Case] = []
    notes = []
    for case in cases:
        try:
            outputs = run(case.inputs)
        # A layer may raise any error for a batch size or length that the layer does not support.
        except Exception as error:
            reason = one_line(error)
            if is_required(case):
                raise ValueError(f"The Keras model cannot run {case.name}: {reason}") from error
            notes.append(f"{case.name} was left out: the Keras model cannot run it: {reason}")
            continue
        problem = None if is_required(case) else _find_problem(outputs)
        if (case.masked or not is_required(case)) and contains_nan(outputs):
            problem = "an output of the Keras model has NaN"
        if problem:
            notes.append(f"{case.name} was left out: {problem}")
        else:
            ran.append(dataclasses.replace(case, outputs=outputs))
    return ran, notes


def _find_problem(outputs: Arrays) -> str | None:
    """Name the problem if an output is empty or has no finite value; return None otherwise."""
    for name, y in outputs.items():
        if not y.size:
            return f"output {name!r} is empty"
        if not where_finite(y).any():
            return f"output {name!r} is NaN or infinite everywhere"
    return None


def _first_problem(cases: Iterable[Case]) -> str | None:
    """Return the first problem in the outputs of unmasked test inputs; None if there is none."""
    return next(filter(None, (_find_problem(c.outputs) for c in cases if not c.masked)), None)


def _quality(cases: Iterable[Case]) -> tuple[float, bool]:
    """Return the share of output values that are finite, and whether samples differ in outputs.

    The share is the smallest share of any output. The samples have to differ in every output.
    """
    plain = [case.outputs for case in cases if not case.masked]
    finite = min(where_finite(y).mean() for outputs in plain for y in outputs.values())
    varies = all(y.ndim == 0 or len(y) < 2 or (y != y[:1]).any() for y in plain[-1].values())
    return float(finite), bool(varies)
