"""The difference of a constant in a quantized file."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ConstantDifference:
    """Difference between a constant of a quantized file and of a new export of the Keras model.

    Attributes:
        name: name of the constant in the file.
        layers: the layer that the constant belongs to, for a message.
        difference: |actual - expected|, at the value that rounding explains least.
        rounding: the sum of the rounding errors of both constants at this value.
    """

    name: str
    layers: str
    difference: float
    rounding: float
