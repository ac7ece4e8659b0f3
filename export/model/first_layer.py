"""Find the first layer of a model whose outputs are wrong in a file or on another backend."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np

from keras_norm.export.compare.arrays import to_numpy
from keras_norm.keras_internals import Node, nodes_in_order
from keras_norm.typing import Array, Tensors

# Function that receives the path and the outputs of a layer. It returns True if the outputs are
# right, False if they are wrong, and None if this is unknown.
IsRight = Callable[[str, Sequence[Array]], bool | None]


def find_first_layer(
    model: keras.Model, inputs: Tensors, is_right: IsRight, prefix: str = ""
) -> str | None:
    """Return the path of the first layer whose outputs `is_right` rejects, or None.

    All layers before a right layer are right too. The search includes the layers of nested models.
    Integers and constant outputs, such as zeros, are skipped: they may be right by chance.

    Args:
        model: a functional or Sequential model.
        inputs: tensors in the order of the model's inputs.
        is_right: compares the outputs of a layer.
        prefix: beginning of every path; "encoder/" for the nested model "encoder".
    """
    nodes = nodes_in_order(model)
    # Build a Keras model whose outputs are the outputs of all layers: Keras attaches the masks to
    # the outputs of a model. The search in a nested model needs these masks, because the inputs of
    # the nested model are outputs of other layers.
    every = keras.Model(list(model.inputs), [list(node.outputs) for node in nodes])
    outputs = every(list(inputs), training=False)
    names = [prefix + name for name in layer_names(nodes)]
    verdicts = []
    for name, values in zip(names, outputs, strict=True):
        arrays = [to_numpy(value) for value in values]
        varies = all("float" in array.dtype.name and np.ptp(array) for array in arrays)
        verdicts.append(is_right(name, arrays) if varies else None)
    right: set[int] = set()
    for node, verdict in zip(reversed(nodes), reversed(verdicts), strict=True):
        if verdict or any(id(tensor) in right for tensor in node.outputs):
            right.update(id(tensor) for tensor in (*node.input_tensors, *node.outputs))
    known = dict(zip(map(id, model.inputs), inputs, strict=True))
    for node, name, values, verdict in zip(nodes, names, outputs, verdicts, strict=True):
        known.update(zip(map(id, node.outputs), values, strict=True))
        if verdict is not False or id(node.outputs[0]) in right:
            continue
        if isinstance(node.operation, keras.Model):
            arguments = [known[id(tensor)] for tensor in node.input_tensors]
            return find_first_layer(node.operation, arguments, is_right, f"{name}/") or name
        return name
    return None


def layer_names(nodes: Iterable[Node]) -> list[str]:
    """Return a name for each node (layer call): "dense", then "dense (2)" for the next call."""
    counts: Counter[str] = Counter()
    names = []
    for node in nodes:
        name = str(node.operation.name)
        counts[name] += 1
        names.append(name + (f" ({counts[name]})" if counts[name] > 1 else ""))
    return names
