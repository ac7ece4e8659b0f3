"""Expected outputs of exported files: test inputs, and a Keras model's outputs for them."""

import dataclasses
import math

from keras_norm.export.compare.arrays import magnitude
from keras_norm.export.compare.quantization_tolerance import Spread, useful_tolerance
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import (
    INTEGER_SHARE,
    QUANTIZED,
    REACH,
    TOLERANCES,
    Tolerance,
    coarsest,
)


@dataclasses.dataclass(frozen=True)
class Expected:
    """Test inputs, a Keras model's outputs for them, and numbers to compute the tolerance from.

    An exporter compares a file with a small value of this class, `check` with a larger one, and
    golden cases store one. All fields are arrays, numbers and texts, so that any process can
    compute the value for any other process.

    Attributes:
        cases: the test inputs with the model's outputs, one entry for each call.
        precision: the coarsest precision that the model's values pass through, such as "float32".
        layers: number of layers with weights in series.
        timesteps: most timesteps that a recurrent layer runs; 1 without a recurrent layer.
        scales: the largest finite |value| of every output, over `cases` and all known data.
        edges: further test inputs with outputs, with a row of zeros, of one value or of extreme
            values.
        notes: the test inputs that were left out, with the reasons.
        random: whether the inputs are random, and not the user's samples.
        rtol: the user's relative tolerance; None for the default.
        atol: the user's absolute tolerance for every output; None for the default.
        spreads: sums for the variance of every float output over all known data.
    """

    cases: tuple[Case, ...]
    precision: str
    layers: int
    timesteps: int
    scales: dict[str, float]
    edges: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    random: bool = False
    rtol: float | None = None
    atol: float | None = None
    spreads: tuple[Spread, ...] = ()

    @property
    def batch(self) -> int:
        """The largest batch size of the test inputs."""
        return max(len(case.rows) for case in self.cases)

    @property
    def all_cases(self) -> tuple[Case, ...]:
        """All test inputs: first real samples (`cases`), then rows of extreme values (`edges`)."""
        return (*self.cases, *self.edges)

    def share(self, precision: str) -> float:
        """Compute the default `atol` of an output, divided by the largest |value| of the output.

        ::

            share = TOLERANCES[precision] max(1, layers sqrt(timesteps) / 10)

        for float32 and float64. For half precision and 8-bit weights, share =
        TOLERANCES[precision]: the rounding of each value is far larger than the sum of errors over
        layers and timesteps.

        Args:
            precision: a key of `TOLERANCES`.
        """
        share = TOLERANCES[precision]
        if precision in ("float32", "float64"):
            share *= max(1.0, self.layers * math.sqrt(self.timesteps) / REACH)
        return share

    @property
    def has_default(self) -> bool:
        """Whether the tolerance is the default: the user gave neither `rtol` nor `atol`."""
        return self.rtol is None and self.atol is None

    def tolerance(self, precision: str = "float64") -> Tolerance:
        """Return the tolerance for an artifact with a given precision, such as "float16".

        The coarser of the artifact's and the model's precision counts. An output of zeros has the
        scale 1. The root mean square of the differences decides whether the outputs of a file in 8
        bits are near the outputs of the model, unless the user gave a tolerance.

        Args:
            precision: the artifact's precision, a key of `TOLERANCES`.
        """
        coarse = coarsest([self.precision, precision])
        share = self.share(coarse)
        found = Tolerance(
            TOLERANCES[coarse] if self.rtol is None else self.rtol,
            {
                name: share * (scale or 1.0) if self.atol is None else self.atol
                for name, scale in self.scales.items()
            },
            share=share,
        )
        if coarse == "int8" and self.has_default:
            useful = useful_tolerance(self.spreads)
            return dataclasses.replace(
                found, integer_share=useful.integer_share, limits=useful.limits
            )
        if precision == "float16":
            return dataclasses.replace(found, integer_share=1.0 if self.spreads else INTEGER_SHARE)
        return found

    def case_tolerance(self, case: Case, precision: str = "float64") -> Tolerance:
        """Return the tolerance for a comparison that includes the outputs of one call only.

        An exporter uses this tolerance for every call. `check` uses it for rows of extreme values:

        - The default `atol` follows the largest output of these test inputs, if that is larger than
          in the data.
        - The outputs of a file in 8 bits only have to be finite: a single sample may differ much.
        - Integer outputs of a quantized file may differ: rounding may change every integer, and
          there are too few integers to limit the share that differs. Integer outputs for rows of
          extreme values may differ too: an argmax of equal scores may be any index.

        Args:
            case: the test inputs, an element of `cases` or `edges`.
            precision: as for `tolerance`.
        """
        found = self.tolerance(precision)
        atol = dict(found.atol)
        if self.atol is None:
            outputs = case.outputs
            atol = {n: max(a, found.share * magnitude(outputs[n])) for n, a in atol.items()}
        is_free = precision in QUANTIZED or self.is_edge(case)
        return dataclasses.replace(
            found,
            atol=atol,
            integer_share=1.0 if is_free else 0.0,
            limits=None if found.limits is None else {},
        )

    def is_edge(self, case: Case) -> bool:
        """Return whether these test inputs have a row of extreme values, such as zeros only."""
        return any(case is edge for edge in self.edges)
