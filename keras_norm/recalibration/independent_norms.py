"""Find the batch normalizations whose inputs depend on no other batch normalization."""

from collections.abc import Collection

import keras

from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import batch_norms, is_functional
from keras_norm.rnn.slots import KERNEL_SLOTS


def independent_norms(
    model: keras.Model, norms: Collection[keras.layers.Layer]
) -> list[keras.layers.Layer]:
    """List the norms whose inputs depend on no other norm of `norms`.

    These are the layers of a functional or Sequential model, also of such models inside it, and the
    kernel norms of its recurrent layers. A norm in a custom layer or a subclassed model is not
    listed.

    Args:
        model: the model.
        norms: the batch normalizations that normalize with the statistics of the batch.
    """
    if not is_functional(model):
        return []
    learning = {id(norm) for norm in norms}
    dependent: set[int] = set()  # Ids of tensors that depend on a norm in `norms`.
    behind: set[int] = set()  # Ids of layers whose inputs depend on a norm in `norms`.
    # Id of a layer -> the norms inside the layer that depend on no other norm inside the layer.
    own: dict[int, list[keras.layers.Layer]] = {}
    for node in nodes_in_order(model):
        layer = node.operation
        inside = batch_norms(layer) if isinstance(layer, keras.layers.Layer) else ()
        found = [norm for _, norm in inside if id(norm) in learning]
        found += [layer] if id(layer) in learning else []
        if any(id(tensor) in dependent for tensor in node.input_tensors):
            behind.add(id(layer))
        if found or id(layer) in behind:
            dependent |= {id(tensor) for tensor in node.outputs}
        is_wrapper = isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)
        own[id(layer)] = (
            independent_norms(layer, found)
            if is_functional(layer)
            else [n for n in found if n is layer or (is_wrapper and n.name in KERNEL_SLOTS)]
        )
    return [norm for layer, found in own.items() if layer not in behind for norm in found]
