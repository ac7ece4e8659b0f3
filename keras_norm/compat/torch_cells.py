"""Map the weights of PyTorch's nn.LSTM, nn.GRU, nn.RNN and LayerNorm LSTM cells to Keras cells."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from keras_norm.compat.equations import (
    NO_OPTIONS,
    describe,
    directions,
    recurrent_cell,
    require_bias,
    require_carried_norms,
    require_options,
)
from keras_norm.compat.named_weights import Assignment, reorder
from keras_norm.typing import Array, Config, TensorLike

# Patterns of the names in a state dict. `parameter` is a name such as "weight_ih", k is the index
# of the layer, d is the direction: 0 forward, 1 backward.
NAMES = (
    "{parameter}_l{k}{reverse}",  # nn.LSTM, nn.GRU and nn.RNN
    "{parameter}",  # nn.LSTMCell, and the LayerNorm LSTM cell of TorchScript and NeMo
    "cell.{parameter}",  # LSTMLayer of TorchScript
    "directions.{d}.cell.{parameter}",
    "layers.{k}.cell.{parameter}",  # StackedLSTM of TorchScript and NeMo
    "layers.{k}.directions.{d}.cell.{parameter}",
)
# PyTorch's name of each norm in a LayerNorm LSTM cell, by the norm's name in NormLSTM.
LAYER_NORMS = {
    "kernel_norm": "layernorm_i",
    "recurrent_norm": "layernorm_h",
    "state_norm": "layernorm_c",
}


class Equation(NamedTuple):
    """A PyTorch module, and the options with which a Keras cell computes the same outputs.

    Args:
        module: name of the module.
        order: index of PyTorch's gate for each gate of Keras.
        options: arguments of the Keras cell.
        advice: the layer to create.
    """

    module: str
    order: tuple[int, ...]
    options: Config
    advice: str


GATES: Config = {"activation": "tanh", "recurrent_activation": "sigmoid", **NO_OPTIONS}
GRU = {**GATES, "reset_after": True, "norm_form": "separate"}
EQUATIONS = {
    keras.layers.LSTMCell: Equation("nn.LSTM", (0, 1, 2, 3), GATES, "LSTM(units)"),
    # PyTorch stores the gates as r, z, n; Keras as z, r, n.
    keras.layers.GRUCell: Equation("nn.GRU", (1, 0, 2), GRU, "GRU(units)"),
    keras.layers.SimpleRNNCell: Equation("nn.RNN", (0,), NO_OPTIONS, "SimpleRNN(units)"),
}
ACTIVATIONS = ("tanh", "relu")  # of nn.RNN


class Parameters:
    """Names of the parameters of one cell in a state dict.

    Args:
        entries: the state dict.
        path: name of the module with a dot, such as "encoder.lstm."; "" for the model itself.
        layer: index of the layer in the module.
        direction: 0 for the forward direction, 1 for the backward direction.
    """

    def __init__(
        self, entries: Mapping[str, TensorLike], path: str, layer: int = 0, direction: int = 0
    ) -> None:
        self.entries = entries
        # A pattern without {k} fits only layer 0. A pattern without {d} and {reverse} fits only the
        # forward direction.
        usable = [
            path + name
            for name in NAMES
            if (layer == 0 or "{k}" in name)
            and (direction == 0 or "{d}" in name or "{reverse}" in name)
        ]
        first = {"k": 0, "d": 0, "reverse": "", "parameter": "weight_ih"}
        found = [name for name in usable if name.format(**first) in entries]
        self.name = (found or usable)[0]
        self.values = {"k": layer, "d": direction, "reverse": "_reverse" * direction}

    def __getitem__(self, parameter: str) -> str:
        return self.name.format(parameter=parameter, **self.values)

    def __contains__(self, parameter: str) -> bool:
        return self[parameter] in self.entries


def assign_recurrence(
    layers: Sequence[keras.layers.Layer],
    entries: Mapping[str, TensorLike],
    path: str,
    epsilon: float,
) -> list[Assignment]:
    """List the variables of recurrent layers, each with the PyTorch parameters to load into it.

    Args:
        layers: the layers of the module from the first to the last: recurrent layers,
            `Bidirectional`, or cells.
        entries: the state dict.
        path: name of the module with a dot, or "".
        epsilon: epsilon of a LayerNorm LSTM cell.

    Raises:
        TypeError: a layer has no counterpart, or is of a custom class.
        ValueError: a layer is not built or computes other equations; the module has more layers, or
            a second direction.
    """
    assignments: list[Assignment] = []
    for k, layer in enumerate(layers):
        for d, one in enumerate(directions(layer)):
            cell, parameters = recurrent_cell(one), Parameters(entries, path, k, d)
            if "layernorm_i.weight" in parameters:
                assignments += _layer_norm_cell(cell, parameters, epsilon)
            else:
                assignments += _plain_cell(cell, parameters)
    _require_all_cells(layers, entries, path)
    return assignments


def _require_all_cells(
    layers: Sequence[keras.layers.Layer], entries: Mapping[str, TensorLike], path: str
) -> None:
    """Raise a ValueError if the PyTorch module has layers or directions that `layers` lacks."""
    backward = Parameters(entries, path, direction=1)
    if "weight_ih" in backward and not isinstance(layers[0], keras.layers.Bidirectional):
        raise ValueError(
            f"'{backward['weight_ih']}' is a weight of the backward direction, but "
            f"{describe(layers[0])} has one direction. Create the layer inside "
            "keras.layers.Bidirectional."
        )
    deeper = Parameters(entries, path, len(layers))
    if "weight_ih" in deeper:
        raise ValueError(
            f"'{deeper['weight_ih']}' is a weight of layer {len(layers)}, counted from 0, but "
            f"received no layer after {describe(layers[-1])}. Pass a list of num_layers layers."
        )


def _plain_cell(cell: keras.layers.Layer, parameters: Parameters) -> list[Assignment]:
    found = [e for cls, e in EQUATIONS.items() if isinstance(cell, cls)]
    if not found:
        raise TypeError(
            f"{describe(cell)} is not an LSTM, GRU or SimpleRNN, so it cannot have the weights of "
            "nn.LSTM, nn.GRU or nn.RNN. Pass a list of layers only if all are recurrent."
        )
    module, order, options, advice = found[0]
    advice = f"Create the layer as {advice}"
    if getattr(cell, "norm", None) is not None:
        raise ValueError(
            f"{module} has no norm, but {describe(cell)} has one. {advice} or "
            f"Norm{advice.split()[-1]}. To add norms to a loaded model, call `keras_norm.convert`."
        )
    if "weight_hr" in parameters:
        name = parameters["weight_hr"]
        size = np.shape(parameters.entries[name])[0]
        if getattr(cell, "projection_units", None) != size:
            raise ValueError(
                f"'{name}' is the projection of nn.LSTM(proj_size={size}), but {describe(cell)} "
                f"has no projection to {size} units. Create the layer as "
                f"NormLSTM(units, projection_units={size})."
            )
        options = {**options, "projection_units": size}
    require_options(cell, options, module, advice)
    if module == "nn.RNN" and cell.get_config()["activation"] not in ACTIVATIONS:
        require_options(cell, {"activation": "tanh"}, module, advice)
    _require_gates(cell, parameters, len(order))
    if "weight_ih" in parameters:
        require_bias("bias_ih" in parameters, cell, module)
    return _kernels(cell, parameters, order) + _biases(cell, parameters, order)


def _require_gates(cell: keras.layers.Layer, parameters: Parameters, gates: int) -> None:
    """Raise a ValueError if the weights and the cell have different numbers of gates."""
    if "weight_hh" not in parameters:
        return
    shape = np.shape(parameters.entries[parameters["weight_hh"]])
    for module, order, _, advice in EQUATIONS.values():
        if len(order) != gates and len(shape) == 2 and shape[0] == len(order) * shape[1]:
            raise ValueError(
                f"'{parameters['weight_hh']}' has the shape {tuple(shape)} of a weight of "
                f"{module}, but received {describe(cell)}. Create the layer as {advice}."
            )


def _kernels(
    cell: keras.layers.Layer, parameters: Parameters, order: Sequence[int]
) -> list[Assignment]:
    def transpose(weight: Array) -> Array:
        return reorder(weight, order).T

    kernels = {"weight_ih": cell.kernel, "weight_hh": cell.recurrent_kernel}
    if getattr(cell, "projection_units", None):
        kernels["weight_hr"] = cell.projection_kernel
    return [
        Assignment(
            variable,
            {parameters[name]: tuple(variable.shape[::-1])},
            np.transpose if name == "weight_hr" else transpose,
        )
        for name, variable in kernels.items()
    ]


def _biases(
    cell: keras.layers.Layer, parameters: Parameters, order: Sequence[int]
) -> list[Assignment]:
    """Load the sum of PyTorch's two biases; a GRU gets both biases as rows of its bias (2, 3H)."""
    if not cell.use_bias:
        return []

    def join(of_inputs: Array, of_h: Array) -> Array:
        biases = [reorder(of_inputs, order), reorder(of_h, order)]
        return np.stack(biases) if len(cell.bias.shape) == 2 else biases[0] + biases[1]

    sizes = (len(order) * cell.units,)
    return [Assignment(cell.bias, {parameters[n]: sizes for n in ("bias_ih", "bias_hh")}, join)]


def _layer_norm_cell(
    cell: keras.layers.Layer, parameters: Parameters, epsilon: float
) -> list[Assignment]:
    source = "The LayerNormLSTMCell of TorchScript and NeMo"
    name = "the eps of the module"
    require_carried_norms(cell, epsilon, GATES, source, name, "load_torch_weights")
    assignments = _kernels(cell, parameters, EQUATIONS[keras.layers.LSTMCell].order)
    if cell.bias is not None:
        assignments.append(Assignment.zeros(cell.bias))
    for slot, name in LAYER_NORMS.items():
        norm = cell.slot_layers()[slot]
        assignments.append(Assignment.of_entry(norm.gamma, parameters[f"{name}.weight"]))
        assignments.append(Assignment.of_entry(norm.beta, parameters[f"{name}.bias"]))
    return assignments
