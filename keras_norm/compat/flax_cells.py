"""Map the weights of Flax' recurrent cells to the variables of Keras' cells."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import keras
import numpy as np

from keras_norm.compat.equations import NO_OPTIONS, describe, require_options
from keras_norm.compat.named_weights import Assignment, reorder
from keras_norm.typing import Array, Config, TensorLike

Entries: TypeAlias = Mapping[str, TensorLike]


class FlaxCell(NamedTuple):
    """A recurrent cell of Flax: its name, its gates in Keras' order, and its biases.

    Args:
        module: name of the module.
        gates: Flax' names of the gates, in the order of Keras.
        order: index of the gate in a joined kernel of nnx, for each gate of Keras.
        bias: "i" for a bias of W x, "h" for a bias of U h.
    """

    module: str
    gates: tuple[str, ...]
    order: tuple[int, ...]
    bias: str


CELLS = {
    keras.layers.LSTMCell: FlaxCell("LSTMCell", ("i", "f", "g", "o"), (0, 1, 2, 3), "h"),
    keras.layers.GRUCell: FlaxCell("GRUCell", ("z", "r", "n"), (1, 0, 2), "i"),
    keras.layers.SimpleRNNCell: FlaxCell("SimpleCell", ("",), (0,), "i"),
}


def cell_assignments(scope: str, cell: keras.layers.Layer, entries: Entries) -> list[Assignment]:
    """List the variables of a recurrent cell, each with the Flax weights to load into it.

    A linen cell has one kernel for each gate, such as "ii", "if" and "hi". A nnx cell has such
    kernels too, or the joined kernels "dense_i" and "dense_h".

    Args:
        scope: the name of the module with a slash at its end, or "".
        cell: a built cell of a class in `CELLS`.
        entries: all entries, by name.

    Raises:
        ValueError: the cell has a norm, or another option that the Flax cell does not have.
    """
    module, gates, order, bias = next(v for cls, v in CELLS.items() if isinstance(cell, cls))
    norms = ", ".join(cell.slot_layers()) if hasattr(cell, "slot_layers") else ""
    if norms:
        raise ValueError(
            f"Flax' {module} has no norm, but received {describe(cell)} with the norms {norms}. "
            "Load the weights into a Keras layer, and then call keras_norm.convert(model, 'layer')."
        )
    options: Config = {"use_bias": True, "reset_after": True, **NO_OPTIONS}
    if module == "GRUCell":
        options["norm_form"] = "separate"
    require_options(cell, options, f"Flax' {module}", "Create the layer with these arguments")
    if any(name.startswith(f"{scope}cell/") for name in entries):
        scope = f"{scope}cell/"
    joined, is_gru = f"{scope}dense_h/kernel" in entries, module == "GRUCell"
    names = {side: [f"{side}{gate}" for gate in gates] for side in ("i", "h")}
    if joined:
        names = {side: [f"dense_{side}"] for side in names}
    elif f"{scope}if_/kernel" in entries:  # nnx writes `if_`, because Python reserves `if`
        names["i"][1] = "if_"
    # A Flax GRU with one kernel for each gate adds a bias to U h in the candidate n, but not in the
    # gates r and z.
    biases = [*names[bias], *names["h"][-1:]] if is_gru and not joined else names[bias]

    def join(*columns: Array) -> Array:
        all_gates = np.concatenate(columns, axis=-1)
        return reorder(all_gates, order, axis=-1) if joined else all_gates

    def join_biases(*columns: Array) -> Array:
        if not is_gru:
            return join(*columns)
        of_x = join(*columns[: len(names["i"])])
        of_h = np.concatenate(columns[len(names["i"]) :] or [np.zeros_like(of_x)])
        return np.stack([of_x, np.pad(of_h, (len(of_x) - len(of_h), 0))])

    width = len(gates) * cell.units // len(names["h"])
    sizes = {"i": (cell.kernel.shape[0], width), "h": (cell.units, width)}
    of_kernels = [
        Assignment(variable, {f"{scope}{name}/kernel": sizes[side] for name in names[side]}, join)
        for side, variable in (("i", cell.kernel), ("h", cell.recurrent_kernel))
    ]
    of_biases = {f"{scope}{name}/bias": (width,) for name in biases}
    return [*of_kernels, Assignment(cell.bias, of_biases, join_biases)]
