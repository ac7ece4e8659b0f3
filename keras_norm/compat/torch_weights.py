"""Load weights of PyTorch modules."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import keras
import numpy as np

from keras_norm.compat.equations import (
    LAYER_NORM,
    describe,
    require_bias,
    require_built,
    require_known_class,
    require_last_axes,
    require_options,
)
from keras_norm.compat.named_weights import Assignment, Weights, assign_weights, named_entries
from keras_norm.compat.torch_cells import assign_recurrence
from keras_norm.typing import Config, TensorLike

Layers: TypeAlias = keras.layers.Layer | Sequence[keras.layers.Layer]
CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
RECURRENT = (keras.layers.RNN, keras.layers.Bidirectional, *CELLS)
COUNT = "num_batches_tracked"
# Keras layer -> (PyTorch module, arguments with which the Keras layer has the module's outputs).
# The argument `epsilon` of load_torch_weights replaces an epsilon of None.
MODULES: dict[type[keras.layers.Layer], tuple[str, Config]] = {
    keras.layers.Dense: ("nn.Linear", {}),
    keras.layers.Embedding: ("nn.Embedding", {}),
    keras.layers.LayerNormalization: ("nn.LayerNorm", {**LAYER_NORM, "epsilon": None}),
    keras.layers.BatchNormalization: ("nn.BatchNorm1d", {"renorm": False, "epsilon": None}),
}
# PyTorch's name of each variable, by the variable's name in Keras.
NAMES = {
    "kernel": "weight",
    "bias": "bias",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "update_count": COUNT,
}


class Module(NamedTuple):
    """A PyTorch module: its entries in a state dict, its name and its epsilon.

    Args:
        entries: the state dict.
        path: name of the module with a dot, such as "encoder.lstm."; "" for the model itself.
        epsilon: `eps` of the module, if it is a norm.
    """

    entries: Mapping[str, TensorLike]
    path: str
    epsilon: float


# Annotate `layers` as keras.layers.Layer: for a type checker, the user's keras_norm.NormLSTM (from
# the stub __init__.pyi) and NormLSTM imported here would be two different classes.
def load_torch_weights(
    layers: Layers | Mapping[str, Layers],
    weights: Weights,
    prefix: str = "",
    *,
    epsilon: float = 1e-5,
) -> None:
    """Load the weights of a PyTorch module into layers that compute the same outputs.

    ========================================= ==================================================
    PyTorch                                   Keras
    ========================================= ==================================================
    nn.LSTM, nn.GRU, nn.RNN, and their cells  LSTM, GRU, SimpleRNN, or ours with norm=None
    bidirectional=True                        Bidirectional
    num_layers=2                              a list of two layers
    LayerNormLSTMCell of TorchScript, of NeMo NormLSTM, see below
    nn.LayerNorm, nn.BatchNorm1d              LayerNormalization, BatchNormalization, ours or Keras'
    nn.Linear, nn.Embedding                   Dense, Embedding
    ========================================= ==================================================

    The LayerNorm LSTM cell of TorchScript and NeMo carries the normalized c. It has the
    equations of `NormLSTM(units, norm=LayerNormalization(epsilon=1e-5), normalize_carry=True)`.

    Args:
        layers: a built layer; a list of layers for a module with `num_layers`; or, for a whole
            model, a dict from names of modules such as "encoder.lstm" to layers or lists.
        weights: the state dict, or the path of a .safetensors or .npz file.
        prefix: name of the module in the state dict. Other entries are ignored. Without a prefix,
            every entry needs a layer.
        epsilon: `eps` of the norms, which is not in a state dict. If a model has several values,
            load its modules one by one.

    Raises:
        TypeError: a layer has no counterpart in PyTorch or is of a custom class; `layers` or
            `weights` is of another type.
        ValueError: a layer is not built, or computes other equations; an entry is missing, has
            another shape or is transposed, belongs to no layer, occurs twice, is quantized or not
            finite; a layer is given for two modules; the module has another projection than the
            layer; the file is a pickle. No layer is changed. (A transposed square matrix has the
            right shape, so it is not found.)

    Example:
        >>> state_dict = {"weight": np.ones((4, 3)), "bias": np.zeros(4)}
        >>> layer = keras.layers.Dense(4)
        >>> layer.build((None, 3))
        >>> load_torch_weights(layer, state_dict)

    Reference:
        The documentation of torch.nn.LSTM, torch.nn.GRU and torch.nn.RNN. The LayerNorm cell:
        benchmarks/fastrnns/custom_lstms.py of PyTorch, nemo/collections/common/parts/rnn.py.
    """
    if hasattr(weights, "state_dict"):
        raise TypeError(
            f"weights must be a state dict. Received the module {type(weights).__name__}. Pass the "
            "result of its method state_dict()."
        )
    path = f"{prefix.removesuffix('.')}." if prefix else ""
    entries = named_entries(weights, ".", path)
    modules = layers if isinstance(layers, Mapping) else {"": layers}
    assignments: list[Assignment] = []
    for name, part in modules.items():
        module = Module(entries, f"{path}{name}." if name else path, epsilon)
        assignments += _assign_module(part, module)
    counts = [name for name in entries if name.rpartition(".")[2] == COUNT]
    assign_weights(assignments, entries, "PyTorch", counts)


def _assign_module(layers: Layers, module: Module) -> list[Assignment]:
    if isinstance(layers, list | tuple):
        return assign_recurrence(layers, *module)
    if not isinstance(layers, keras.layers.Layer):
        raise TypeError(
            "layers must be a layer, a list of layers, or a dict from names of modules to layers "
            f"or lists of layers. Received: {type(layers).__name__}."
        )
    layer = layers
    while isinstance(layer, keras.layers.TimeDistributed):
        layer = layer.layer
    if isinstance(layer, RECURRENT):
        return assign_recurrence([layer], *module)
    require_known_class(layer)
    ours = getattr(layer, "KERAS_CLASS", None)
    found = [each for cls, each in MODULES.items() if cls is ours or isinstance(layer, cls)]
    if not found:
        advice = "Call set_weights of this layer"
        if isinstance(layer, keras.Model):
            advice = "Pass a dict from names of modules to layers, such as {'lstm': layer}"
        raise TypeError(
            f"load_torch_weights does not support {describe(layer)}. It supports LSTM, GRU, "
            "SimpleRNN, Bidirectional, Dense, Embedding, LayerNormalization and "
            f"BatchNormalization. {advice}."
        )
    require_built(layer)
    _require_module(layer, module, *found[0])
    return [_assignment(variable, module) for variable in layer.weights if variable.name in NAMES]


def _assignment(variable: keras.Variable, module: Module) -> Assignment:
    name = module.path + NAMES[variable.name]
    if variable.name == "kernel":
        return Assignment(variable, {name: tuple(variable.shape)[::-1]}, np.transpose)
    return Assignment.of_entry(variable, name)


def _require_module(layer: keras.layers.Layer, module: Module, name: str, options: Config) -> None:
    """Raise a ValueError if a layer does not compute the outputs of its PyTorch module."""
    if "epsilon" in options:
        advice = f"Create the layer with epsilon={module.epsilon}"
        advice += f", or call load_torch_weights with epsilon=..., the eps of {name}"
        require_options(layer, {**options, "epsilon": module.epsilon}, name, advice)
    if name == "nn.LayerNorm":
        require_last_axes(layer, name)
    weight, has_bias = f"{module.path}weight", f"{module.path}bias" in module.entries
    if weight not in module.entries:
        return
    if hasattr(layer, "use_bias"):
        require_bias(has_bias, layer, name)
    elif hasattr(layer, "beta") and has_bias != (layer.beta is not None):
        raise ValueError(
            f"The module of '{weight}' has {'a' if has_bias else 'no'} bias, but {describe(layer)} "
            f"has {'no' if has_bias else 'a'} bias (beta). Create it with center={has_bias}."
        )
