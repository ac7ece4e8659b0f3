"""Functions of named tensors as TensorFlow graphs, as signatures hold them."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_norm.export.signature import TensorSpec


def traced(
    function: Callable[[dict[str, Any]], Mapping[str, Any]], specs: Mapping[str, TensorSpec]
) -> Any:
    """A `tf.function`, traced here, whose inputs and outputs have names.

    Args:
        function: tensors by input name -> tensors by output name.
        specs: input name -> spec; sizes of None stay open.
    """

    def named(inputs: dict[str, Any]) -> dict[str, Any]:
        # An input returned as it is, or one tensor under two names, needs a tensor of its own.
        return {name: tf.identity(t, name=name) for name, t in function(inputs).items()}

    signature = {name: tf.TensorSpec(s.shape, s.dtype, name=name) for name, s in specs.items()}
    graph = tf.function(named, input_signature=[signature], autograph=False)
    graph.get_concrete_function()
    return graph
