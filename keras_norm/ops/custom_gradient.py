"""Compute functions with a custom gradient on the TensorFlow backend."""

from collections.abc import Callable

import keras
from keras import ops

from keras_norm.typing import Nest, Tensor

Gradient = Callable[..., list[Tensor | None]]


def with_custom_gradient(
    function: Callable[..., tuple[Nest, Gradient]], *tensors: Tensor | None
) -> Nest:
    """Compute `function(*tensors)` with the custom gradient that `function` returns.

    On a CPU every operation reads and writes a whole tensor. TensorFlow's autodiff takes more
    operations than the equations need. The other backends compile the gradient that
    autodiff derives, so this function does not use the custom gradient there.

    Args:
        function: maps tensors to (result, gradient). `gradient` maps the gradients of the result to
            a list of gradients, for the first tensors. A tensor with None or without an item has no
            gradient. The operations of `gradient` must be differentiable too.
        *tensors: all tensors that `function` reads. A tensor may be None.
    """
    if keras.backend.backend() != "tensorflow":
        return function(*tensors)[0]
    present = [i for i, tensor in enumerate(tensors) if tensor is not None]

    # `ops.custom_gradient` does not accept None, so pass only the tensors that are not None.
    def function_of_present(*values: Tensor) -> tuple[Nest, Gradient]:
        by_index = dict(zip(present, values, strict=True))
        result, gradient = function(*(by_index.get(i) for i in range(len(tensors))))

        def gradient_of_present(*upstream: Tensor) -> list[Tensor | None]:
            gradients = dict(enumerate(gradient(*upstream)))
            return [gradients.get(i) for i in present]

        return result, gradient_of_present

    return ops.custom_gradient(function_of_present)(*(tensors[i] for i in present))
