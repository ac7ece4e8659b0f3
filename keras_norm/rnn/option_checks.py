"""Check the options of a recurrent cell."""

import math
import numbers

import numpy as np

from keras_norm.layers.inputs import is_int


def require_bool(name: str, value: bool) -> bool:
    """Return `value` as a bool; raise ValueError unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False. Received: {name}={value!r}.")
    return bool(value)


def require_rate(name: str, rate: float) -> float:
    """Return `rate` as a float; raise ValueError unless 0 <= rate < 1."""
    if not (isinstance(rate, numbers.Real) and 0.0 <= rate < 1.0):
        raise ValueError(
            f"{name} must be a number of at least 0 and below 1. Received: {name}={rate!r}."
        )
    return float(rate)


def require_bound(name: str, bound: float | None) -> float | None:
    """Return `bound`; raise ValueError unless it is None or a finite number above 0."""
    if bound is None:
        return None
    is_number = isinstance(bound, numbers.Real) and not isinstance(bound, bool)
    if not (is_number and 0 < bound < math.inf):
        raise ValueError(
            f"{name} must be None or a finite number above 0. Received: {name}={bound!r}."
        )
    return float(bound)


def require_size(name: str, size: int | None) -> int | None:
    """Return `size`; raise ValueError unless it is None or a positive integer."""
    if size is not None and not (is_int(size) and size > 0):
        raise ValueError(f"{name} must be None or a positive integer. Received: {name}={size!r}.")
    return size
