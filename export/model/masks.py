"""Find the inputs that a model masks, and the layers that do not pass a mask on."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping

import keras

from keras_norm.export.compare.samples import Samples
from keras_norm.export.signature import input_specs
from keras_norm.keras_internals import Node, mask_of, nodes_in_order
from keras_norm.typing import Tensor


def mask_fills(model: keras.Model) -> dict[str, float]:
    """Return, by input name, the value that marks a masked timestep of each input with a mask.

    An input is masked if it feeds a `Masking` layer or an `Embedding` with mask_zero=True. If an
    input is the `mask` argument of a layer, its fill value is 0 (False). In that case 0 is also the
    fill value of every input from which the layer's own input is computed. Inputs without a time
    axis and text inputs have no fill value: a layer computes ids from the texts and masks the ids.
    """
    fills: dict[int, float] = {}
    for tensor, fill, _ in _masks(model):
        if fill is not None:
            fills.setdefault(id(tensor), fill)
    tensors, sources = _sequences(model), _sources(model)
    for node in nodes_in_order(model):
        mask = node.arguments.kwargs.get("mask")
        if any(mask is tensor for tensor in tensors.values()):
            for source in (id(mask), *sources[id(node.input_tensors[0])]):
                fills.setdefault(source, 0)
    return {name: fills[id(tensor)] for name, tensor in tensors.items() if id(tensor) in fills}


def masked_later(model: keras.Model, fills: Mapping[str, float]) -> dict[str, str]:
    """Return the inputs that other layers change before the model masks them.

    The value of such an input that marks a masked timestep is not known. Returns the name of the
    masking layer, or of the nested model with that layer, by input name.
    """
    sources = _sources(model)
    masks = [(sources[id(tensor)], layer) for tensor, _, layer in _masks(model)]
    return {
        name: layer
        for name, tensor in _sequences(model).items()
        for masked, layer in masks
        if name not in fills and id(tensor) in masked
    }


def why_not_padded(fills: Mapping[str, float], samples: Samples) -> str | None:
    """Return the reason why masked timesteps cannot be added to the data; None if they can.

    `fills` comes from `mask_fills`.
    """
    if not fills:
        return (
            "no input of the model determines a mask. An input does so if it feeds a Masking layer "
            "or an Embedding with mask_zero=True, or if it is the argument mask of a layer"
        )
    static = [name for name in fills if name not in samples.sequences]
    if static:
        return (
            f"the time dimension of input {static[0]!r} is static: no masked timestep can be added"
        )
    unmasked = [name for name in samples.sequences if name not in fills]
    if unmasked:
        return f"input {unmasked[0]!r} has a time dimension that the model does not mask"
    return None


def _sequences(model: keras.Model) -> dict[str, Tensor]:
    """Return the numeric inputs with a time axis, (batch, time, ...), by name."""
    tensors = zip(input_specs(model).items(), model.inputs, strict=True)
    return {
        name: tensor
        for (name, spec), tensor in tensors
        if len(spec.shape) > 1 and spec.dtype != "string"
    }


def _masks(model: keras.Model) -> Iterator[tuple[Tensor, float | None, str]]:
    """Yield each tensor that a layer or nested model masks: (tensor, fill value, layer's name).

    The fill value marks masked timesteps. It is None if other layers change the tensor first.
    """
    for node in nodes_in_order(model):
        layer = node.operation
        if isinstance(layer, keras.layers.Masking):
            yield node.input_tensors[0], layer.mask_value, layer.name
        elif isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
            yield node.input_tensors[0], 0, layer.name
        elif isinstance(layer, keras.Model):
            # A subclassed model has no symbolic inputs, so its layers' calls are unknown.
            inputs = getattr(layer, "inputs", None) or ()
            sources = _sources(layer) if inputs else {}
            for inner, fill, _ in _masks(layer) if inputs else ():
                for outer, own in zip(node.input_tensors, inputs, strict=False):
                    if id(own) in sources[id(inner)]:
                        yield outer, fill if own is inner else None, layer.name


def _sources(model: keras.Model) -> dict[int, set[int]]:
    """Return a dict: id of a tensor -> ids of the model's inputs that determine the tensor."""
    found = {id(tensor): {id(tensor)} for tensor in model.inputs}
    for node in nodes_in_order(model):
        inputs = set[int]().union(*(found[id(tensor)] for tensor in node.input_tensors))
        found |= {id(output): inputs for output in node.outputs}
    return found


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
        """A sentence for a report: the layer that loses the mask, and the layers that need it."""
        first, *others = self.users
        more = f" and {len(others)} more" if others else ""
        return (
            f"{self.name} does not pass its mask on: {first!r}{more} would use the mask, but reads "
            "padding as data"
        )

    @property
    def advice(self) -> str:
        """Advice for a report: how to give the mask to a layer that would use it."""
        return (
            f"Give the mask to {self.users[0]!r} in its call, as mask=: see the guide "
            "'Masks and padding'."
        )


def lost_masks(model: keras.Model) -> list[LostMask]:
    """List the layers and operations that lose a mask which a later layer would use.

    A layer that supports masks may end a mask on purpose, as a recurrent layer does that returns
    its last output. Such a layer is not listed, and neither is a layer whose output has no time
    axis. Masks that a nested model receives are not followed inside the nested model.
    """
    lost: dict[int, str] = {}  # id of a tensor -> name of the layer that lost the tensor's mask
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
    """Return the layer or operation that lost the mask of a node's inputs; None if none did."""
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
    """Yield the inputs of a node whose masks Keras passes on: the first argument of a layer.

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
