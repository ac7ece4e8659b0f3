"""What a check asks every model, and what the Keras model answers."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_norm.export.compare.element_differences import Arrays, hold_nan, magnitude
from keras_norm.export.compare.input_cases import (
    MASKED_BATCH,
    Case,
    Companion,
    Samples,
    companions,
    edge_cases,
    make_cases,
    masked_cases,
)
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.model.depth import layers_in_series, timesteps_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.masks import mask_fills, masked_later, why_not_padded
from keras_norm.export.model.precision import model_precision
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.step_signature import traced
from keras_norm.export.runtimes.runner import Run

# Sequences, and timesteps of them, that run through the signature `step`, one call for each.
STREAMS, LONGEST_STREAM = 2, 64
# Timesteps, of all streams together, that a file of the step alone is asked for.
TIMESTEPS = 10_000


@dataclasses.dataclass(frozen=True)
class Stream:
    """Sequences to be run timestep by timestep.

    Attributes:
        takes: names of what a step is given, states among them.
        over_time: from a step and whole sequences to what is compared (`Step.over_time`, or
            `Step.every_timestep`).
        inputs: whole sequences by name.
        expected: what the model gives.
        length: number of timesteps.
    """

    takes: frozenset[str]
    over_time: Callable[[Run, Arrays], Arrays]
    inputs: Arrays
    expected: Arrays
    length: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """The calls of a check, but for those that go through all data.

    Attributes:
        run: the Keras model.
        samples: the first of the user's data.
        cases: the inputs of each call.
        expected: what the Keras model gives for each.
        edges: inputs of further calls, with a row of zeros, of one value or of extremes.
        edges_expected: what the Keras model gives for each of them.
        companions: the calls that show whether rows are independent.
        padding: the value that masks a timestep, by input name; or why none can be added.
        precision: the coarsest that the Keras model's values pass through.
        stream: gives sequences for the signature `step`, or why the model has none.
        long_stream: the same for a file of the step alone, compared after every timestep.
        notes: which cases were left out, and why.
        layers: number of layers with weights in a row.
        timesteps: most timesteps that a recurrent layer runs in any case; 1 without one.
    """

    run: KerasRunner
    samples: Samples
    cases: tuple[Case, ...]
    expected: tuple[Arrays, ...]
    edges: tuple[Case, ...]
    edges_expected: tuple[Arrays, ...]
    companions: tuple[Companion, ...]
    padding: dict[str, float] | str
    precision: str
    stream: Callable[[], Stream | str]
    long_stream: Callable[[], Stream | str]
    notes: tuple[str, ...]
    layers: int
    timesteps: int

    @property
    def batch(self) -> int:
        """The largest batch of any case."""
        return max(len(case.rows) for case in self.cases)

    @property
    def scales(self) -> dict[str, float]:
        """The largest finite |value| of every output, in any case."""
        names = self.expected[0]
        return {name: max(magnitude(answer[name]) for answer in self.expected) for name in names}


def make_plan(
    model: Any,
    samples: Samples,
    batch_sizes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
) -> Plan:
    """Ask the Keras model for every answer; leave out the cases that it refuses.

    A convolution or a pooling can need more timesteps than the shortest case has, and gives nothing
    for it, NaN, or the maximum of nothing, where it does not refuse it. Lengths that the user asked
    for, and the data's own, must run. A mean over a row that is masked everywhere is NaN, and is no
    fault of an artefact.

    Args:
        model: a functional or Sequential model.
        samples: the validated data.
        batch_sizes: see `keras_norm.export.compare.input_cases.make_cases`.
        lengths: see there.

    Raises:
        ValueError: sizes or lengths that do not fit, or that the model does not run.
    """
    run = KerasRunner(model)
    fills = mask_fills(model)
    plain = make_cases(samples, batch_sizes, lengths)
    batch = max(len(case.rows) for case in plain)
    kept: list[Case] = []
    answers: list[Arrays] = []
    notes = [
        f"input {name!r} is padded in no case: {layer!r} masks what other layers make of it"
        for name, layer in masked_later(model, fills).items()
    ]
    for case in (*plain, *masked_cases(samples, fills, min(MASKED_BATCH, batch))):
        asked_for = lengths is not None or case.length == samples.length
        try:
            answer = run(case.inputs)
        except Exception as error:
            reason = one_line(error)
            if asked_for:
                raise ValueError(f"The Keras model cannot run {case.name}: {reason}") from error
            notes.append(f"{case.name} left out, the Keras model refuses it: {reason}")
            continue
        if not asked_for and not all(array.size for array in answer.values()):
            notes.append(f"{case.name} left out, the Keras model gives no values")
            continue
        if (case.masked or not asked_for) and hold_nan(answer):
            notes.append(f"{case.name} left out, the Keras model gives NaN")
            continue
        if not asked_for and any(np.isinf(array).all() for array in answer.values()):
            notes.append(f"{case.name} left out, the Keras model gives infinity alone")
            continue
        kept.append(case)
        answers.append(answer)
    edges, edges_expected, left_out = _edges(run, samples)
    return Plan(
        run=run,
        samples=samples,
        cases=tuple(kept),
        expected=tuple(answers),
        edges=edges,
        edges_expected=edges_expected,
        companions=companions(samples, batch),
        padding=why_not_padded(fills, samples) or fills,
        precision=model_precision(model, answers[0]),
        stream=functools.cache(functools.partial(_stream, model, samples, run)),
        long_stream=functools.cache(functools.partial(_stream, model, samples, None)),
        notes=(*notes, *left_out),
        layers=layers_in_series(model),
        timesteps=max(map(timesteps_of(model), (case.inputs for case in kept))),
    )


def _edges(
    run: Run, samples: Samples
) -> tuple[tuple[Case, ...], tuple[Arrays, ...], tuple[str, ...]]:
    """The cases with a row of zeros and so on, the model's answers, and a note of those left out.

    A logarithm of zero is infinite, and shows nothing of a file.
    """
    kept, answers, left_out = [], [], []
    for case in edge_cases(samples):
        try:
            answer = run(case.inputs)
        except Exception:  # whatever a layer raises: the user's data hold no such row
            answer = {}
        if answer and all(np.isfinite(array).all() for array in answer.values()):
            kept.append(case)
            answers.append(answer)
        else:
            left_out.append(case.name)
    notes = [f"{'; '.join(left_out)}: left out, the Keras model gives NaN or infinity"]
    return tuple(kept), tuple(answers), tuple(notes if left_out else ())


def _stream(model: Any, samples: Samples, run: Run | None) -> Stream | str:
    """Some sequences for the signature `step` of the artefacts, or why the model has none.

    Without `run`, the model on whole sequences, they are many timesteps, compared one by one: the
    samples again and again, each from states of zero. What the model has at the end alone is then
    compared after every timestep too.
    """
    try:
        step = Step(model)
    except StreamingError as error:
        return str(error)
    rows = samples.batch or STREAMS
    steps = min(LONGEST_STREAM, *(samples.arrays[name].shape[1] for name in step.sequences))
    if run is None:
        steps, size = min(samples.longest, TIMESTEPS), samples.batch or 1
        rows = size * max(-(-TIMESTEPS // (steps * size)), 2)
    whole = samples.take(range(rows))
    inputs = {n: a[:, :steps] if n in step.sequences else a for n, a in whole.items()}
    takes = frozenset(step.inputs | step.states)
    if run is not None:
        return Stream(takes, step.over_time, inputs, run(inputs), steps)
    expected = step.every_timestep(traced(step), inputs)
    return Stream(takes, step.every_timestep, inputs, expected, rows * steps)
