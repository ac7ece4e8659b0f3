"""Expected outputs of exported files: test inputs, and a Keras model's outputs for them."""

import dataclasses
import math

from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import REACH, TOLERANCES, Tolerance, coarsest


@dataclasses.dataclass(frozen=True)
class Expected:
    """Test inputs of a Keras model, its outputs for them, and the sizes that set the tolerance.

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
    """

    cases: tuple[Case, ...]
    precision: str
    layers: int
    timesteps: int
    scales: dict[str, float]
    edges: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    random: bool = False

    @property
    def batch(self) -> int:
        """The largest batch size of `cases`."""
        return max(len(case.rows) for case in self.cases)

    def share(self, precision: str) -> float:
        """Compute the default `atol` of an output, as a share of the output's largest |value|.

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

    def tolerance(self, precision: str = "float64") -> Tolerance:
        """Return the default tolerance for an artifact of a precision, such as "float16" or "int8".

        The coarser of the artifact's and the model's precision counts. An output of zeros has the
        scale 1.
        """
        precision = coarsest([self.precision, precision])
        share = self.share(precision)
        atol = {name: share * (scale or 1.0) for name, scale in self.scales.items()}
        return Tolerance(TOLERANCES[precision], atol)

    def file_tolerance(self, case: Case, quantize: str | None = None) -> Tolerance:
        """Return the tolerance of an exporter for the outputs of its file on some test inputs.

        The outputs of a file in 8 bits only have to be finite; a later step measures their errors.
        Integer outputs of a quantized file are not compared: rounding may change every integer, and
        there are too few integers to limit the share that differs.

        Args:
            case: the test inputs.
            quantize: as for `export_tflite`.
        """
        if quantize in EIGHT_BITS:
            return Tolerance(0.0, dict.fromkeys(self.scales, math.inf), integer_share=1.0)
        if quantize is not None:
            return dataclasses.replace(self.tolerance(quantize), integer_share=1.0)
        default = self.tolerance()
        return dataclasses.replace(default, atol={**default.atol, **case.atol})
