"""What a check runs every model on: the inputs, and what the Keras model answers to them."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_norm.export.comparing.cases import MASKED_BATCH, Case, Samples, make_cases, masked_cases
from keras_norm.export.comparing.compare import largest
from keras_norm.export.comparing.eight_bits import Useful, useful
from keras_norm.export.comparing.masking import mask_fills, masked_later, why_not_padded
from keras_norm.export.comparing.metrics import Labels, read_labels
from keras_norm.export.comparing.precision import model_precision
from keras_norm.export.comparing.properties import Arrays, Run, Stream, Tolerance
from keras_norm.export.comparing.rounding import default_share, is_recurrent, layers_in_series
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.exporting.streaming import Step
from keras_norm.export.results import Metric
from keras_norm.export.runners import KerasRunner

# Sequences, and timesteps of them, that run through the signature `step`, one call for each.
STREAMS, LONGEST_STREAM = 2, 64


@dataclasses.dataclass(frozen=True)
class Plan:
    """The cases of a check.

    Attributes:
        samples: the user's data.
        cases: the inputs of each call.
        expected: what the Keras model gives for each.
        padding: the value that masks a timestep, by input name; or why none can be added.
        precision: the coarsest that the Keras model's values pass through.
        stream: gives sequences for the signature `step`, or why the model has none.
        notes: which cases were left out, and why.
        layers: number of layers with weights in a row.
        timesteps: most timesteps that a recurrent layer runs in any case; 1 without one.
        labels: of the samples, by output name; of no output where none are given.
    """

    samples: Samples
    cases: tuple[Case, ...]
    expected: tuple[Arrays, ...]
    padding: dict[str, float] | str
    precision: str
    stream: Callable[[], Stream | str]
    notes: tuple[str, ...]
    layers: int
    timesteps: int
    labels: Labels

    @property
    def batch(self) -> int:
        """The largest batch of any case."""
        return max(len(case.rows) for case in self.cases)

    def metrics(self, answers: Sequence[Arrays]) -> tuple[Metric, ...]:
        """The metric of every output with labels and the Keras model's shape, on all samples.

        Args:
            answers: what a model gives for each case.
        """
        if not self.labels.arrays:
            return ()
        expected, outputs = (
            _on_all_samples(self.samples, self.cases, given) for given in (self.expected, answers)
        )
        alike = {n: a for n, a in outputs.items() if n in expected and a.shape == expected[n].shape}
        return self.labels.metrics(alike, np.arange(self.samples.count))

    def useful(self) -> Useful:
        """The rule for files in eight bits: by how much the model's outputs vary over the data."""
        return useful(_on_all_samples(self.samples, self.cases, self.expected))

    def share(self, precision: str) -> float:
        """The default tolerance of values of this precision, see `default_share`."""
        return default_share(precision, self.layers, self.timesteps)

    def tolerance(
        self,
        precision: str,
        rtol: float | None,
        atol: float | None,
        answers: Sequence[Arrays] | None = None,
    ) -> Tolerance:
        """How far values of this precision may differ.

        By default atol is a share of an output's largest value, whatever that value is.

        Args:
            precision: a key of `keras_norm.export.comparing.compare.TOLERANCES`.
            rtol: what the user asked for, or None.
            atol: what the user asked for, or None.
            answers: what the values are compared with; None for all that the Keras model gives.
        """
        share = self.share(precision)
        answers = answers or self.expected
        scales = {name: largest(answer[name] for answer in answers) for name in answers[0]}
        absolute = {name: share * scale if atol is None else atol for name, scale in scales.items()}
        return Tolerance(share if rtol is None else rtol, absolute)


def make_plan(
    model: Any,
    samples: Samples,
    batch_sizes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    labels: Any = None,
) -> Plan:
    """Ask the Keras model for every answer; leave out the cases that it refuses.

    A convolution or a pooling can need more timesteps than the shortest case has. Lengths that the
    user asked for, and the data's own, must run. A mean over a row that is masked everywhere is
    NaN, and is no fault of an artefact.

    Args:
        model: a functional or Sequential model.
        samples: the validated data.
        batch_sizes: see `keras_norm.export.comparing.cases.make_cases`.
        lengths: see there.
        labels: see `keras_norm.export.comparing.metrics.read_labels`; None for none.

    Raises:
        ValueError: sizes, lengths or labels that do not fit, or that the model does not run.
    """
    run = KerasRunner(model)
    fills = mask_fills(model)
    plain = make_cases(samples, batch_sizes, lengths)
    batch = min(MASKED_BATCH, max(len(case.rows) for case in plain))
    kept: list[Case] = []
    answers: list[Arrays] = []
    notes = [
        f"input {name!r} is padded in no case: {layer!r} masks what other layers make of it"
        for name, layer in masked_later(model, fills).items()
    ]
    for case in (*plain, *masked_cases(samples, fills, batch)):
        try:
            answer = run(case.inputs)
        except Exception as error:
            reason = one_line(error)
            if lengths is not None or case.length == samples.length:
                raise ValueError(f"The Keras model cannot run {case.name}: {reason}") from error
            notes.append(f"{case.name} left out, the Keras model refuses it: {reason}")
            continue
        if case.masked and any(np.isnan(value).any() for value in answer.values()):
            notes.append(f"{case.name} left out, the Keras model gives NaN")
            continue
        kept.append(case)
        answers.append(answer)
    return Plan(
        samples=samples,
        cases=tuple(kept),
        expected=tuple(answers),
        padding=why_not_padded(fills, samples) or fills,
        precision=model_precision(model, answers[0]),
        stream=functools.partial(_stream, model, samples, run),
        notes=tuple(notes),
        layers=layers_in_series(model),
        timesteps=_timesteps(kept) if is_recurrent(model) else 1,
        labels=_labels(labels, samples, kept, answers),
    )


def _labels(
    labels: Any, samples: Samples, cases: Sequence[Case], answers: Sequence[Arrays]
) -> Labels:
    if labels is None:
        return Labels({}, {})
    return read_labels(labels, _on_all_samples(samples, cases, answers), samples.count)


def _on_all_samples(samples: Samples, cases: Sequence[Case], answers: Sequence[Arrays]) -> Arrays:
    """Each output for every sample, at the data's own length.

    An output is left out where a value has not one row for each of its case's, or rows of another
    shape than the first.
    """
    whole: Arrays = {}
    own = [
        (case, answer)
        for case, answer in zip(cases, answers, strict=True)
        if case.length == samples.length and not case.masked
    ]
    for name, first in own[0][1].items():
        values = [(case.rows, answer.get(name, np.empty(0))) for case, answer in own]
        row = first.shape[1:]
        if all(value.shape == (len(rows), *row) for rows, value in values):
            whole[name] = np.empty((samples.count, *row), first.dtype)
            for rows, value in values:
                whole[name][list(rows)] = value
    return whole


def _timesteps(cases: Sequence[Case]) -> int:
    """The longest time dimension of any input."""
    arrays = (array for case in cases for array in case.inputs.values())
    return max((array.shape[1] for array in arrays if array.ndim > 1), default=1)


def _stream(model: Any, samples: Samples, run: Run) -> Stream | str:
    """Some sequences for the signature `step` of the artefacts, or why the model has none."""
    try:
        step = Step(model)
    except StreamingError as error:
        return str(error)
    inputs = samples.take([row % samples.count for row in range(samples.batch or STREAMS)])
    longest = min(LONGEST_STREAM, *(inputs[name].shape[1] for name in step.sequences))
    inputs = {n: a[:, :longest] if n in step.sequences else a for n, a in inputs.items()}
    takes = frozenset(step.inputs | step.states)
    return Stream(takes, step.over_time, inputs, run(inputs), longest)
