"""The result of a check for one exported file, or for the Keras model."""

import dataclasses

from keras_norm.export.results.output_comparison import OutputComparison, OutputResult


@dataclasses.dataclass(frozen=True)
class PropertyResult:
    """Result of testing a property of a model or an artifact, such as "row independence".

    Attributes:
        name: name of the property, such as "row independence".
        status: "pass", "fail", "not applicable", or "differs": the model lacks the property, but
            this is not a failure.
        detail: the observation, or the reason why the property does not apply.
        meaning: the meaning of a failure or a difference, as a clause; "" for any other status.
        advice: what to do, in one or more sentences; "" for no advice.
    """

    name: str
    status: str
    detail: str
    meaning: str = ""
    advice: str = ""


@dataclasses.dataclass(frozen=True)
class Metric:
    """The value of a metric, such as the accuracy, for one output of a model.

    Attributes:
        output: name of the output.
        name: "accuracy" or "mean squared error".
        value: value of the metric.
    """

    output: str
    name: str
    value: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """Size, latency and operations of one artifact in one runtime.

    Attributes:
        size: bytes of the file, or of all files in the directory. For the Keras model: bytes of its
            weights. None for a function.
        latency: (batch size, milliseconds) pairs: the median over some calls, at batch size 1 and
            at the largest batch size of the check, with sequences of the data's length. The time is
            measured in the process that runs the model. Transfer between processes is excluded.
        ops: (operation, number of uses in the file) pairs, the most frequent operation first.
        per_timestep: whether a call runs one timestep, as for a single-step model.
        arena: bytes of the memory arena of TensorFlow Lite Micro; None for other runtimes.
    """

    size: int | None
    latency: tuple[tuple[int, float], ...]
    ops: tuple[tuple[str, int], ...]
    per_timestep: bool = False
    arena: int | None = None


@dataclasses.dataclass(frozen=True)
class FirstDifference:
    """The first layer where an artifact differs from the Keras model.

    Attributes:
        layer: path of the first layer whose output differs; None if the layer is not known.
        reason: evidence from the layer's weights or from a new export; or the reason why the layer
            is not known.
        stale: whether a new export of the model is right although this file is wrong. The file is
            then old, damaged or made from another model. None if this is not known, for example
            because the model cannot be exported again.
        is_rounding: whether rounding in the Keras model explains the difference. No layer is then
            searched for.
    """

    layer: str | None
    reason: str
    stale: bool | None = None
    is_rounding: bool = False


@dataclasses.dataclass(frozen=True)
class ArtifactResult:
    """The result of a check for one exported file in one runtime, or for the Keras model.

    Attributes:
        name: name in the report.
        path: path of the file or directory; "" for the Keras model and for functions.
        precision: the coarsest precision that the values pass through; it sets the tolerance.
        rtol: relative tolerance used.
        atol: absolute tolerance that the user gave; None for the default, a share of an output's
            largest value.
        outputs: comparison with the Keras model for each output; empty for the Keras model.
        properties: results of the tests of properties.
        error: the reason why the artifact could not be run, or None.
        share: the default absolute tolerance for this precision and model, as a share of an
            output's largest value.
        metrics: metrics of every output with labels, on all samples.
        first_difference: the first layer that differs from the Keras model; None if no output
            differs.
        cost: bytes, milliseconds and operations; None if the artifact could not be run.
        quantized: whether the artifact stores values with fewer bits than the Keras model has:
            8 bits, or 16 bits for a float32 model. Its outputs approximate the model's.
    """

    name: str
    path: str
    precision: str
    rtol: float
    atol: float | None
    outputs: tuple[OutputResult, ...] = ()
    properties: tuple[PropertyResult, ...] = ()
    error: str | None = None
    share: float = 0.0
    metrics: tuple[Metric, ...] = ()
    first_difference: FirstDifference | None = None
    cost: Cost | None = None
    quantized: bool = False

    @property
    def comparisons(self) -> list[tuple[str, OutputComparison]]:
        """(name of the test input, comparison) pairs of all outputs."""
        return [pair for o in self.outputs for pair in zip(o.cases, o.comparisons, strict=True)]

    @property
    def atol_needed(self) -> float | None:
        """The smallest `atol` with which every output passes; None if no `atol` suffices."""
        compared = [c for _, c in self.comparisons]
        if any(c.problem or (c.atol_needed is None and not c.passed) for c in compared):
            return None
        return max((c.atol_needed or 0.0 for c in compared), default=None)

    @property
    def passed(self) -> bool:
        """Whether the artifact ran, its outputs are within the limit, and every property holds.

        The limit depends on the precision. For a float32 file it is rounding; for a quantized file
        it is wider, so its outputs may differ visibly: see `OutputResult.errors`.
        """
        return (
            self.error is None
            and all(output.passed for output in self.outputs)
            and all(p.status != "fail" for p in self.properties)
        )

    def property(self, name: str) -> PropertyResult | None:
        """Return the result of the property with this name; None if the property was not tested."""
        return next((p for p in self.properties if p.name == name), None)


def readable_share(share: float | None) -> str:
    """Format a ratio with two digits: "0.21%", "6.1%", "660%", "25 times"; None gives "-"."""
    if share is None:
        return "-"
    if 0 < share < 1e-5:
        return "under 0.001%"
    if share < 0.995:
        return f"{100 * share:.2g}%"
    if share < 10:
        return f"{100 * share:.0f}%"
    return f"{share:.0f} times" if share <= 1e4 else "over 10,000 times"


def readable_size(size: int) -> str:
    """Format a number of bytes as "1.2 MB" or "3.4 kB"."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
