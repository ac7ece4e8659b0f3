"""Find the layers that do not pass a mask on to a later layer that would use it."""

import dataclasses
import inspect
from collections.abc import Iterator

import keras

from keras_norm.keras_internals import Node, mask_of, nodes_in_order
from keras_norm.typing import Tensor


@dataclasses.dataclass(frozen=True)
class LostMask:
    """A layer or operation that receives a mask and does not pass it on.

    Attributes:
        name: the layer with its class, such as "layer 'encoder' (Bidirectional)", or the operation.
        users: names of the later layers that would use the mask, at least one.
    """

    name: str
    users: tuple[str, ...]

    @property
    def description(self) -> str:
        """What happens to the mask, for a report."""
        first, *others = self.users
        more = f" and {len(others)} more" if others else ""
        return (
            f"{self.name} does not pass its mask on: {first!r}{more} would use the mask, but reads "
            "padding as data"
        )

    @property
    def advice(self) -> str:
        """What to do about it, for a report."""
        return (
            f"Give the mask to {self.users[0]!r} in its call, as mask=: see the guide "
            "'Masks and padding'."
        )


def lost_masks(model: keras.Model) -> list[LostMask]:
    """List the layers and operations at which a mask ends before a layer that would use it.

    A layer that supports masks may end a mask on purpose, as a recurrent layer does that returns
    its last output. Such a layer is not listed, and neither is a layer whose output has no time
    axis. Masks that a nested model receives are not followed inside the nested model.
    """
    lost: dict[int, str] = {}  # name of the layer that lost the mask, by id of the tensor
    users: dict[str, list[str]] = {}
    found: list[LostMask] = []
    for node in nodes_in_order(model):
        operation = node.operation
        if isinstance(operation, keras.Model) and hasattr(operation, "inputs"):
            found += lost_masks(operation)
        causes = [lost[id(x)] for x in node.input_tensors if id(x) in lost]
        if causes and _uses_mask(operation) and not _has_mask_argument(node):
            users.setdefault(causes[0], []).append(operation.name)
        for output in node.outputs:
            if mask_of(output) is None and len(output.shape) > 2:
                cause = _lost_at(node, lost)
                if cause is not None:
                    lost[id(output)] = cause
    return [*found, *(LostMask(name, tuple(dict.fromkeys(u))) for name, u in users.items())]


def _lost_at(node: Node, lost: dict[int, str]) -> str | None:
    """Return the name of the layer at which the mask of a node's inputs ended, or None."""
    operation = node.operation
    is_layer = isinstance(operation, keras.layers.Layer)
    inputs = list(_masked_inputs(node))
    if any(mask_of(x) is not None for x in inputs):
        if is_layer:
            name = f"layer {operation.name!r} ({type(operation).__name__})"
            return None if operation.supports_masking else name
        return f"operation {operation.name!r} of keras.ops"
    return next((lost[id(x)] for x in inputs if id(x) in lost), None)


def _masked_inputs(node: Node) -> Iterator[Tensor]:
    """Yield the inputs whose mask Keras passes on: the first argument of a layer.

    Keras passes no mask on through an operation; its inputs are all tensors.
    """
    arguments = node.arguments.args
    first = arguments[:1] if isinstance(node.operation, keras.layers.Layer) else ()
    of_first = {id(x) for x in keras.tree.flatten(first)}
    yield from (x for x in node.input_tensors if not of_first or id(x) in of_first)


def _uses_mask(operation: keras.Operation) -> bool:
    """Return whether a layer reads the mask of its inputs.

    The mask of `Softmax` is another one: it has the shape of the inputs.
    """
    if isinstance(operation, keras.layers.TimeDistributed):
        return _uses_mask(operation.layer)
    if isinstance(operation, keras.Model) and hasattr(operation, "inputs"):
        return any(map(_uses_mask, operation.layers))
    if not isinstance(operation, keras.layers.Layer) or isinstance(operation, keras.layers.Softmax):
        return False
    return (
        not inspect.signature(operation.call).parameters.keys().isdisjoint(("mask", "query_mask"))
    )


def _has_mask_argument(node: Node) -> bool:
    """Return whether a layer receives a mask as an argument of its call."""
    given = node.arguments.kwargs.items()
    return any(name.endswith("mask") and value is not None for name, value in given)
