"""Whether a recurrence runs in its plain or its fast form, where both can be had.

Needs the TensorFlow backend.
"""

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.forwardprop_util import pack_tangents
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
from tensorflow.python.ops.gradients_util import (
    POSSIBLE_GRADIENT_TYPES_HIGHER_ORDER,
    PossibleTapeGradientTypes,
)

from keras_norm.ops.fast.spec import Spec
from keras_norm.ops.fast.warmth import is_hot
from keras_norm.rnn.fast_form import Sizes

# Two halves of the batch are two XLA programs, which run side by side: one program alone leaves the
# second of two cores all but idle. So the loops took 0.55 to 0.75 of the time at all four shapes of
# the benchmark; four parts took as long as two.
PARTS = 2

# Modules that trace a model to write it to a file, which must run without XLA.
EXPORTERS = ("keras.src.export", "tensorflow.lite", "tensorflow.python.saved_model")


def choose(
    spec: Spec,
    sequences: Any,
    sizes: Sizes,
    tensors: list[Any],
    training: bool,
    plain: Callable[[], Any],
    fast: Callable[[int], Any],
    *,
    forced: bool,
) -> Any:
    """Run the form that is faster here.

    Args:
        spec: of `fast_spec`.
        sequences: (batch, time, features).
        sizes: of the sequences.
        tensors: what a gradient may be asked of: tensors and variables.
        training: whether a gradient may be asked for.
        plain: the plain form.
        fast: the fast form, of the number of parts.
        forced: whether the fast form is to run whatever it costs.
    """
    # What is normalized over the batch cannot be split.
    parts = 1 if sequences.shape[0] == 1 or spec.learning else PARTS
    if forced:
        return fast(parts)
    if _is_beyond_first_order([tf.convert_to_tensor(tensor) for tensor in tensors]):
        return plain()
    if GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        return fast(1)
    if tf.config.list_logical_devices("GPU") or tf.distribute.has_strategy() or _exporting():
        return plain()
    name = f"{spec}, {'training' if training else 'inference'}"
    hot = is_hot(name, sizes.batch, sizes.padded_time)
    if tf.executing_eagerly():
        return fast(1) if hot else plain()
    return tf.cond(hot, lambda: fast(parts), plain)


def _is_beyond_first_order(tensors: list[Any]) -> bool:
    """Whether two tapes, or a persistent one, or an accumulator of tangents watch.

    TensorFlow cannot differentiate twice a conditional that holds a gradient by hand, and has no
    tangent of one.
    """
    types = PossibleTapeGradientTypes(tensors)
    return types == POSSIBLE_GRADIENT_TYPES_HIGHER_ORDER or bool(pack_tangents(tensors).tangents)


def _exporting() -> bool:
    """Whether the graph at hand is traced by an exporter, or for one by `get_concrete_function`."""
    frame: Any = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        traced = module.startswith("tensorflow") and (
            frame.f_code.co_name == "get_concrete_function"
        )
        if traced or module.startswith(EXPORTERS):
            return True
        frame = frame.f_back
    return False
