"""What a check found of one artefact."""

import dataclasses

import numpy as np

from keras_norm.export.results.output_comparison import OutputResult


@dataclasses.dataclass(frozen=True)
class Property:
    """Whether a model has a property.

    Attributes:
        name: "no NaN", "row independence", "padding", "left padding", "repeat", "concurrency",
            "streaming", "training form", "weights" or "ops".
        status: "pass", "fail", "not applicable", or "differs": not so, and no fault.
        detail: what was seen, or why it does not apply.
    """

    name: str
    status: str
    detail: str


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric of one output.

    Attributes:
        output: name of the output.
        name: "accuracy" or "mean squared error".
        value: what it is.
    """

    output: str
    name: str
    value: float


@dataclasses.dataclass(frozen=True)
class Tally:
    """What a metric is a mean of; those of several parts of the data add up.

    Attributes:
        output: name of the output.
        name: "accuracy" or "mean squared error".
        count: number of values.
        total: sum over them; of an accuracy by a threshold, with the threshold 0.5.
        signed: the same with the threshold 0.
        shares: whether the Keras model's outputs are all between 0 and 1, so that the threshold is
            0.5.
    """

    output: str
    name: str
    count: float
    total: float
    signed: float
    shares: bool

    @property
    def metric(self) -> Metric:
        """The mean, in float32, in which the order of adding does not show."""
        total = self.total if self.shares else self.signed
        return Metric(self.output, self.name, float(np.float32(total / (self.count or 1.0))))


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one artefact costs in one runner.

    Attributes:
        size: bytes of the file, or of all files of the folder; of the Keras model's weights; None
            for a function.
        latency: (batch size, milliseconds) pairs: the median of some calls at batch 1 and at the
            largest batch that was checked, of the data's length. It is taken around the model,
            inside the process that runs it: what passes between processes is not counted.
        ops: (operation, how many of them stand in the file) pairs, the most frequent first.
        per_timestep: whether a call is a timestep, as of a file of the step alone.
        arena: bytes of the memory that TensorFlow Lite Micro runs the file in; None elsewhere.
    """

    size: int | None
    latency: tuple[tuple[int, float], ...]
    ops: tuple[tuple[str, int], ...]
    per_timestep: bool = False
    arena: int | None = None


@dataclasses.dataclass(frozen=True)
class FirstDifference:
    """Where the values of an artefact leave those of the Keras model.

    Attributes:
        layer: path of the first layer whose output differs; None where it is not known.
        reason: what the layer's weights or a new export say of it; or why it is not known.
        stale: whether a new export of the model is right where this file is not, for another reason
            than what was exported: the file is old, damaged or another model's. None where it is
            not known, as when the model cannot be exported again.
        is_rounding: whether the model's own rounding explains the difference: then no layer is
            looked for.
    """

    layer: str | None
    reason: str
    stale: bool | None = None
    is_rounding: bool = False


@dataclasses.dataclass(frozen=True)
class ArtifactResult:
    """One exported file, or the Keras model itself, in one runner.

    Attributes:
        name: how the report calls it.
        path: where it is; "" for the Keras model and for runners without a file.
        precision: the coarsest precision that its values pass through, which sets the tolerance.
        rtol: relative tolerance used.
        atol: absolute tolerance that was asked for; None for the default, a share of an output's
            largest value.
        outputs: comparison with the Keras model, output by output; empty for the model itself.
        properties: what else was tested.
        error: why it could not be run, or None.
        share: the default absolute tolerance for this precision and model, as a share of an
            output's largest value.
        metrics: on all samples, of every output with labels.
        first_difference: where its values leave the Keras model's; None where they do not.
        cost: bytes, milliseconds and operations; None where it could not be run.
    """

    name: str
    path: str
    precision: str
    rtol: float
    atol: float | None
    outputs: tuple[OutputResult, ...] = ()
    properties: tuple[Property, ...] = ()
    error: str | None = None
    share: float = 0.0
    metrics: tuple[Metric, ...] = ()
    first_difference: FirstDifference | None = None
    cost: Cost | None = None

    @property
    def atol_needed(self) -> float | None:
        """The smallest atol with which every output passes, with this rtol; None if none does."""
        compared = [c for output in self.outputs for c in output.comparisons]
        if any(c.problem or (c.atol_needed is None and not c.passed) for c in compared):
            return None
        return max((c.atol_needed or 0.0 for c in compared), default=None)

    @property
    def by_rms(self) -> bool:
        """Whether the root mean square of an output's differences judges it, as in eight bits."""
        return any(c.rms is not None for output in self.outputs for c in output.comparisons)

    @property
    def gives_nan(self) -> bool:
        """Whether it was found to give NaN, of the Keras model."""
        return any(p.name == "no NaN" and p.status == "fail" for p in self.properties)

    @property
    def passed(self) -> bool:
        """Whether it ran, equals the Keras model, and has every property that applies."""
        return (
            self.error is None
            and all(output.passed for output in self.outputs)
            and all(p.status != "fail" for p in self.properties)
        )

    def property(self, name: str) -> Property | None:
        """The property of that name, or None when it was not reached."""
        return next((p for p in self.properties if p.name == name), None)


@dataclasses.dataclass(frozen=True)
class Failure:
    """One reason why a check failed.

    Attributes:
        subject: the artefact's name, or "Keras model".
        check: "run", "values", "gap", or the name of a property.
        detail: what was seen, in one line.
    """

    subject: str
    check: str
    detail: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that a check measured, and what to do about it.

    Attributes:
        subject: the artefact, layer or output that it is about.
        seen: what was measured.
        advice: what to do.
    """

    subject: str
    seen: str
    advice: str


def readable_size(size: int) -> str:
    """Bytes as "1.2 MB" or "3.4 kB"."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
