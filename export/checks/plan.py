"""The test inputs of a check, and the outputs of the Keras model for them."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence

import keras

from keras_norm.export.compare.arrays import contains_nan, magnitude, where_finite
from keras_norm.export.compare.input_cases import (
    MASKED_BATCH,
    NeighborCase,
    edge_cases,
    make_cases,
    masked_cases,
    neighbor_cases,
)
from keras_norm.export.compare.samples import Case, Samples
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.model.masks import mask_fills, masked_later, why_not_padded
from keras_norm.export.model.reference_runner import reference_runner
from keras_norm.export.model.single_step import Step, trace_step
from keras_norm.export.model.tolerance_factors import layer_depth, model_precision, timestep_counter
from keras_norm.export.results.constant_difference import ConstantDifference
from keras_norm.export.runtimes.runner import Run, Runner
from keras_norm.typing import Arrays

# Number of sequences that run through the step signature, and their maximum number of timesteps.
STREAMS, LONGEST_STREAM = 2, 64
# Number of samples for a new export of a quantized file.
CALIBRATION = 32
# A check runs a single-step file for about this number of timesteps, summed over all sequences.
TIMESTEPS = 10_000


@dataclasses.dataclass(frozen=True)
class Stream:
    """Test sequences for the step signature, to run one timestep at a time.

    Attributes:
        takes: names of the inputs of the step signature, including the states.
        over_time: function that runs a step over whole sequences and returns the outputs to compare
            (`Step.over_time` or `Step.every_timestep`).
        inputs: whole sequences by input name.
        expected: outputs of the Keras model.
        length: number of timesteps.
    """

    takes: frozenset[str]
    over_time: Callable[[Run, Arrays], Arrays]
    inputs: Arrays
    expected: Arrays
    length: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """The test inputs of a check, with the outputs of the Keras model for them.

    The run over all data is not in the plan.

    Attributes:
        run: the Keras model, on the backend that trained it.
        variables: digests of the Keras model's weights before the first call.
        samples: the first samples of the user's data.
        cases: the test inputs, one entry for each call.
        expected: outputs of the Keras model for each of `cases`.
        edges: further test inputs, with a row of zeros, of one value or of extreme values.
        edges_expected: outputs of the Keras model for each of `edges`.
        neighbor_cases: the calls that test whether rows are independent.
        padding: the value that masks a timestep, by input name; or the reason why no masked
            timestep can be added.
        precision: the coarsest precision that the Keras model's values pass through.
        stream: function that returns sequences for the step signature, or the reason why the model
            cannot have a step signature.
        long_stream: function that returns sequences for a single-step file, or the reason why the
            model cannot have a step signature. The outputs are compared at every timestep.
        compare_constants: function that compares the constants of a quantized file with those of a
            new export (`Format.compare_constants`), or returns the reason why it cannot.
        notes: the test inputs that were left out, with the reasons.
        layers: number of layers with weights in series.
        timesteps: most timesteps that a recurrent layer runs for any test input; 1 without a
            recurrent layer.
    """

    run: Runner
    variables: dict[str, str]
    samples: Samples
    cases: tuple[Case, ...]
    expected: tuple[Arrays, ...]
    edges: tuple[Case, ...]
    edges_expected: tuple[Arrays, ...]
    neighbor_cases: tuple[NeighborCase, ...]
    padding: dict[str, float] | str
    precision: str
    stream: Callable[[], Stream | str]
    long_stream: Callable[[], Stream | str]
    compare_constants: Callable[[pathlib.Path], list[ConstantDifference] | str]
    notes: tuple[str, ...]
    layers: int
    timesteps: int

    @property
    def batch(self) -> int:
        """The largest batch size of all test inputs."""
        return max(len(case.rows) for case in self.cases)

    @property
    def scales(self) -> dict[str, float]:
        """The largest finite |value| of every output, over all test inputs."""
        names = self.expected[0]
        return {name: max(magnitude(y[name]) for y in self.expected) for name in names}


def make_plan(
    model: keras.Model,
    samples: Samples,
    batch_sizes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
) -> Plan:
    """Make the test inputs and run the Keras model on them.

    A test input is left out if the Keras model cannot run it or returns no usable outputs. A
    convolution or a pooling layer may need more timesteps than the shortest test input has. It
    then raises, or gives an empty output, NaN, or infinity (the maximum of no values). The length
    of the data and the lengths that the user gave must run. A mean over a fully masked row is NaN:
    this is not an error of an artifact.

    Args:
        model: a functional or Sequential model.
        samples: the validated data.
        batch_sizes: see `keras_norm.export.compare.input_cases.make_cases`.
        lengths: see `keras_norm.export.compare.input_cases.make_cases`.

    Raises:
        ValueError: sizes or lengths do not fit, or the model cannot run them.
    """
    run = reference_runner(model)
    variables = run.variable_digests()
    fills = mask_fills(model)
    unmasked = make_cases(samples, batch_sizes, lengths)
    batch = max(len(case.rows) for case in unmasked)
    masked = masked_cases(samples, fills, min(MASKED_BATCH, batch))
    cases: list[Case] = []
    expected: list[Arrays] = []
    notes = [
        f"input {name!r} has no masked timesteps in any test input, because layer {layer!r} masks "
        "this input only after other layers have changed it"
        for name, layer in masked_later(model, fills).items()
    ]
    for case in (*unmasked, *masked):
        is_required = lengths is not None or case.length == samples.length
        try:
            outputs = run(case.inputs)
        except Exception as error:
            reason = one_line(error)
            if is_required:
                raise ValueError(f"The Keras model cannot run {case.name}: {reason}") from error
            notes.append(f"{case.name} was left out: the Keras model cannot run it: {reason}")
            continue
        problem = _find_problem(outputs, is_required, case.masked)
        if problem is None:
            cases.append(case)
            expected.append(outputs)
        else:
            notes.append(f"{case.name} was left out: {problem}")
    edges, edges_expected, edge_notes = _run_edge_cases(run, samples)
    return Plan(
        run=run,
        variables=variables,
        samples=samples,
        cases=tuple(cases),
        expected=tuple(expected),
        edges=edges,
        edges_expected=edges_expected,
        neighbor_cases=neighbor_cases(samples, batch),
        padding=why_not_padded(fills, samples) or fills,
        precision=model_precision(model, expected[0]),
        stream=functools.cache(functools.partial(_make_stream, model, samples, run)),
        long_stream=functools.cache(functools.partial(_make_stream, model, samples, None)),
        compare_constants=functools.partial(_compare_constants, model, samples),
        notes=(*notes, *edge_notes),
        layers=layer_depth(model),
        timesteps=max(map(timestep_counter(model), (case.inputs for case in cases))),
    )


def _find_problem(outputs: Arrays, is_required: bool, is_masked: bool) -> str | None:
    """Return the reason why outputs of the Keras model are not usable, or None.

    Args:
        outputs: the outputs for a test input.
        is_required: whether the test input has the length of the data, or one that the user gave.
        is_masked: whether the test input has masked timesteps.
    """
    if (is_masked or not is_required) and contains_nan(outputs):
        return "an output of the Keras model has NaN"
    if is_required:
        return None
    if not all(array.size for array in outputs.values()):
        return "an output of the Keras model is empty"
    if not all(where_finite(array).any() for array in outputs.values()):
        return "all values of an output of the Keras model are infinite"
    return None


def _run_edge_cases(
    run: Run, samples: Samples
) -> tuple[tuple[Case, ...], tuple[Arrays, ...], tuple[str, ...]]:
    """Run the Keras model on edge cases: test inputs with a row of zeros or of extreme values.

    A row of zeros, of one value or of extreme values, an empty text or a text of unknown words
    replaces a sample. This function returns the edge cases, the outputs of the model, and a note.
    The note lists the edge cases that the model cannot run, or for which it gives NaN or infinity.
    A logarithm of zero, for example, is infinite: a comparison would say nothing about a file.
    """
    cases, expected, left_out = [], [], []
    for case in edge_cases(samples):
        try:
            outputs = run(case.inputs)
        # A layer may raise an error for a row of zeros or unknown words: leave out this test input.
        except Exception:
            outputs = {}
        if outputs and all(where_finite(array).all() for array in outputs.values()):
            cases.append(case)
            expected.append(outputs)
        else:
            left_out.append(case.name)
    note = (
        f"{'; '.join(left_out)}: left out, because the Keras model cannot run them, or its outputs "
        "are NaN or infinite"
    )
    return tuple(cases), tuple(expected), (note,) if left_out else ()


def _compare_constants(
    model: keras.Model, samples: Samples, path: pathlib.Path
) -> list[ConstantDifference] | str:
    """Compare the constants of a quantized file with those of a new export of the model."""
    known = format_of(path)
    if known is None or known.compare_constants is None:
        return "the exporter writes no quantized files of this format"
    few = {name: array[:CALIBRATION] for name, array in samples.arrays.items()}
    for name in samples.sequences:
        few[name] = few[name][:, :LONGEST_STREAM]
    return known.compare_constants(model, path, few)


def _make_stream(model: keras.Model, samples: Samples, run: Run | None) -> Stream | str:
    """Return sequences for the step signature, or the reason why the model has no step signature.

    With `run`, the expected outputs are those of the model on whole sequences. With `run=None`, the
    samples are repeated for many timesteps, and each sequence starts from zero states. Outputs are
    then compared at every timestep, even if the model returns only the last timestep.
    """
    try:
        step = Step(model)
    except StreamingError as error:
        return str(error)
    rows = samples.batch or STREAMS
    lengths = [samples.arrays[name].shape[1] for name in step.sequences]
    steps = step.length or min(LONGEST_STREAM, *lengths)
    if run is None:
        steps, size = min(max(lengths), TIMESTEPS), samples.batch or 1
        rows = size * max(-(-TIMESTEPS // (steps * size)), 2)
    whole = samples.take(range(rows))
    inputs = {n: a[:, :steps] if n in step.sequences else a for n, a in whole.items()}
    takes = frozenset(step.inputs | step.states)
    if run is not None:
        return Stream(takes, step.over_time, inputs, run(inputs), steps)
    expected = step.every_timestep(trace_step(step), inputs)
    return Stream(takes, step.every_timestep, inputs, expected, rows * steps)
