"""Warn of norms that remove information, such as a LayerNorm of one feature."""

import warnings
from collections.abc import Iterable, Mapping

import keras

from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.rnn.core.lstm_options import PROJECTION_SLOT
from keras_norm.rnn.core.recurrence import step_norm
from keras_norm.rnn.slots import KERNEL_SLOTS, Slots

MIN_FEATURES, MIN_UNITS = 4, 3
FEW_FEATURES = (
    "A norm of W x removes the scale of x: with one feature, only the sign of x is left. "
    "Received inputs whose last dimension is {features}, and {norm} in {slot}. Put a Dense layer "
    "with more units before this layer, or leave that norm out: pass norm={others} to NormLSTM, "
    "NormGRU or NormSimpleRNN. With norm_form='joint' a norm of W x + U h keeps the scale."
)
SMALL_PROJECTION = (
    "A LayerNorm of 1 unit returns only 0, and a LayerNorm of 2 units only 1 and -1. Received "
    "projection_units={width}, and {norm} in {slot}. Use more units, or leave that norm out: pass "
    "norm={others} to NormLSTM."
)


def warn_of_few_features(slots: Slots, features: int) -> None:
    """Warn if the inputs x have few features, and a cell has a per-sample norm of W x.

    Such a norm removes the scale of x: with one feature, only the sign of x is left.
    """
    remover = slots.scale_remover()
    if remover is None or features >= MIN_FEATURES:
        return
    slot, cls = remover
    others = _norms_of(other for other in slots.widths if other not in KERNEL_SLOTS)
    given = {"features": features, "norm": cls.__name__, "slot": slot, "others": others}
    warnings.warn(FEW_FEATURES.format(**given), stacklevel=2)


def warn_of_small_projection(slots: Slots, layers: Mapping[str, keras.layers.Layer]) -> None:
    """Warn if a LayerNorm of the projection has one or two units.

    Args:
        slots: the slots of a cell.
        layers: the norm layer of each slot.
    """
    layer, width = layers.get(PROJECTION_SLOT), slots.widths.get(PROJECTION_SLOT, MIN_UNITS)
    norm = None if layer is None or width >= MIN_UNITS else step_norm(layer, training=False)
    if isinstance(norm, SampleNorm) and norm.center:
        others = _norms_of(slot for slot in layers if slot != PROJECTION_SLOT)
        given = {"norm": type(layer).__name__, "slot": PROJECTION_SLOT, "others": others}
        warnings.warn(SMALL_PROJECTION.format(width=width, **given), stacklevel=2)


def _norms_of(slots: Iterable[str]) -> str:
    """Return Python code of a dict with `slots` as keys, such as "{'recurrent_norm': ...}"."""
    return "{" + ", ".join(f"'{slot}': ..." for slot in slots) + "}"
