"""Functions of named tensors, as TensorFlow traces them into signatures."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_norm.export.signature import TensorSpec


def named_function(
    function: Callable[[dict[str, Any]], Mapping[str, Any]], specs: Mapping[str, TensorSpec]
) -> Any:
    """The function as a graph, each of whose outputs is a tensor of its own, called as it is.

    Args:
        function: tensors by input name -> tensors by output name. An output can be an input as it
            is, or one tensor under two names.
        specs: input name -> spec; sizes of None stay open.
    """

    def named(inputs: dict[str, Any]) -> dict[str, Any]:
        return {name: tf.identity(t, name=name) for name, t in function(inputs).items()}

    return tf.function(named, input_signature=[tensor_specs(specs)], autograph=False)


def tensor_specs(specs: Mapping[str, TensorSpec]) -> dict[str, tf.TensorSpec]:
    """The same as TensorFlow writes them.

    Args:
        specs: input name -> spec; sizes of None stay open.
    """
    return {name: tf.TensorSpec(s.shape, s.dtype, name=name) for name, s in specs.items()}
