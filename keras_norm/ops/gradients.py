"""Gradients written by hand."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Gradient = Callable[..., list[Any]]


def with_gradient(function: Callable[..., tuple[Any, Gradient]], *tensors: Any) -> Any:
    """Compute `function(*tensors)` with the gradient that it gives along.

    On a CPU every operation reads and writes all of a tensor, and TensorFlow's autodiff takes more
    of them than the equations need. The other backends compile what they differentiate, and there
    the gradient is their own.

    Args:
        function: maps tensors to (result, gradient). `gradient` maps the gradients of the result to
            those of the first tensors, in operations that can be differentiated again; the tensors
            that it leaves out have none.
        *tensors: all tensors that `function` reads, None for one that is not there.
    """
    if keras.backend.backend() != "tensorflow":
        return function(*tensors)[0]
    there = [i for i, tensor in enumerate(tensors) if tensor is not None]

    def of_those_there(*given: Any) -> tuple[Any, Gradient]:
        every = dict(zip(there, given, strict=True))
        result, gradient = function(*(every.get(i) for i in range(len(tensors))))

        def gradient_of_those_there(*upstream: Any) -> list[Any]:
            gradients = dict(enumerate(gradient(*upstream)))
            return [gradients.get(i) for i in there]

        return result, gradient_of_those_there

    return ops.custom_gradient(of_those_there)(*(tensors[i] for i in there))
