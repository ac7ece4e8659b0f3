"""Measure the sizes (Euclidean norms) of inputs x of recurrent layers that normalize W x.

LayerNorm(W x) removes the size of x: the results for x and 2 x are equal.
"""

import dataclasses
from collections.abc import Callable, Iterator

import keras
import numpy as np
from keras import ops

from keras_norm.export.compare.samples import Samples
from keras_norm.export.signature import pack_inputs
from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import named_layers
from keras_norm.rnn.call_arguments import MaskWithResets
from keras_norm.rnn.cell import NormCell
from keras_norm.substitution import substituted_functions
from keras_norm.typing import Array, Tensor, Tensors

MAX_SAMPLES = 128
BATCH = 32


@dataclasses.dataclass(frozen=True)
class InputSizes:
    """The sizes (Euclidean norms) of a recurrent layer's inputs x at unmasked timesteps.

    Attributes:
        layer: path of the layer.
        slot: position in the cell of the norm that removes the sizes, such as "kernel_norm".
        norm: name of the norm's class.
        low: the size that 5 % of the timesteps are below.
        high: the size that 5 % of the timesteps are above.
        spread: coefficient of variation: the deviation of the sizes divided by their mean.
    """

    layer: str
    slot: str
    norm: str
    low: float
    high: float
    spread: float


def measure_input_sizes(model: keras.Model, samples: Samples) -> list[InputSizes]:
    """Measure the sizes (Euclidean norms) of inputs x whose scale a recurrent layer removes.

    A normalization in the cell removes the scale. With LayerNorm(W x), for example, the results for
    x and 2 x are equal. Only the first `MAX_SAMPLES` samples are measured. A layer counts if its x
    comes from the model's inputs, and no layer with a matrix is between x and these inputs: a Dense
    layer can turn the size of its inputs into a direction. A layer without an unmasked timestep is
    left out.
    """
    readers = {id(layer) for layer in _readers_of_inputs(model)}
    layers = [
        (path, layer, removed)
        for path, layer in named_layers(model)
        if id(layer) in readers
        and isinstance(cell := getattr(layer, "cell", None), NormCell)
        and (removed := cell.slots.scale_remover())
    ]
    few = dataclasses.replace(
        samples, arrays={name: array[:MAX_SAMPLES] for name, array in samples.arrays.items()}
    )
    sizes: dict[str, list[Array]] = {path: [] for path, _, _ in layers}
    recorders = {layer: {"inner_loop": _record(layer, sizes[path])} for path, layer, _ in layers}
    if layers:
        with substituted_functions(recorders):
            for _, case in few.batches(BATCH):
                model(pack_inputs(model, case.inputs), training=False)
    found = []
    for path, _, (slot, norm) in layers:
        size = np.concatenate(sizes[path])
        if size.size:
            low, high = np.percentile(size, (5, 95))
            spread = size.std() / (size.mean() or 1)
            found.append(
                InputSizes(path, slot, norm.__name__, float(low), float(high), float(spread))
            )
    return found


def _readers_of_inputs(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Yield the layers that read the model's inputs, also layers in wrappers and nested models.

    Layers without a matrix, such as Masking, Dropout and Normalization, may be between them.
    """
    inputs = {id(tensor) for tensor in model.inputs}
    for node in nodes_in_order(model):
        layer = node.operation
        if not node.input_tensors or id(node.input_tensors[0]) not in inputs:
            continue
        if isinstance(layer, keras.Model):
            yield from _readers_of_inputs(layer)
        elif isinstance(layer, keras.layers.Layer):
            yield layer
            yield from (inner for _, inner in named_layers(layer))
        weights = getattr(layer, "weights", ())
        if not any(len(weight.shape) > 1 for weight in weights):
            inputs.update(map(id, node.outputs))


def _record(layer: keras.layers.RNN, sizes: list[Array]) -> Callable[..., object]:
    """Return a function that appends the size of each x to `sizes` and calls `layer.inner_loop`."""
    inner_loop = layer.inner_loop

    def record(
        sequences: Tensor, initial_state: Tensors, mask: Tensor | None, training: bool = False
    ) -> object:
        size = np.linalg.norm(ops.convert_to_numpy(ops.cast(sequences, "float32")), axis=-1)
        unmasked = mask.mask if isinstance(mask, MaskWithResets) else mask
        sizes.append(size.ravel() if unmasked is None else size[ops.convert_to_numpy(unmasked)])
        return inner_loop(sequences, initial_state, mask, training)

    return record
