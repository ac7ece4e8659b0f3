"""A model with every LSTM as one operation of TFLite's, UNIDIRECTIONAL_SEQUENCE_LSTM.

TensorFlow has no such operation, so a model is traced with a placeholder in the place of each
LSTM's loop: a function marked `tfl_fusable_op`, which the converter keeps whole as an operation of
another's making. `workers/fused_lstm.py` then turns each into TFLite's own. The converter can fuse
functions by itself, but none with normalization inside, and its states outlive a call.

The operation computes ::

    i, f, g, o = LN(W x_t + U h) + b        LN for each gate, with an epsilon of 1e-8, or none
    c = s(f) * c + s(i) * tanh(g)
    h = s(o) * tanh(c)

the joint form of `NormLSTMCell`. Its epsilon can be any other, as LN(z) with epsilon is LN(s z)
with s^2 epsilon: s = sqrt(1e-8 / epsilon) scales W and U.
"""

import math
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.activations import sigmoid, tanh

from keras_norm.export import signature
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.rnn.lstm import GATES, LayerNormLSTMCell, NormLSTMCell
from keras_norm.substitution import Method, substituted_methods
from keras_norm.walk import named_layers

# The name of the placeholder; `workers/fused_lstm.py` has it too.
PLACEHOLDER = "keras_norm_lstm"
EPSILON = 1e-8
# Has the converter keep a function whole, as an operation of the function's name.
FUSABLE = f'name: "{PLACEHOLDER}" attr {{ key: "tfl_fusable_op" value {{ b: true }} }}'

CELLS = (keras.layers.LSTMCell, NormLSTMCell, LayerNormLSTMCell)
NORMS = (keras.layers.LayerNormalization, LayerNormalization)


def fusible_layers(model: keras.Model) -> list[tuple[str, keras.layers.RNN]]:
    """The recurrent layers of a model by their paths, each an LSTM that TFLite can fuse.

    Args:
        model: a functional or a built sequential model.

    Raises:
        ValueError: a recurrent layer is none; or the model has none.
    """
    layers = [(p, layer) for p, layer in named_layers(model) if isinstance(layer, keras.layers.RNN)]
    if not layers:
        raise ValueError("the model has no LSTM to fuse: leave fused=True out")
    for path, layer in layers:
        reason = _obstacle(layer.cell)
        if reason is not None:
            raise _refusal(path, layer, reason)
    return layers


def call(model: keras.Model, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
    """`signature.call` with a placeholder for the loop of every recurrent layer.

    Only to be traced and converted: a placeholder computes nothing.

    Raises:
        ValueError: as `fusible_layers`; or a layer receives a mask or an `initial_state`.
    """
    placed = {layer: _placed(path, layer) for path, layer in fusible_layers(model)}
    with substituted_methods(placed):
        return signature.call(model, inputs, training)


def _placed(path: str, layer: Any) -> dict[str, Method]:
    """Methods of a layer that write a placeholder for its loop, from states of zero."""
    zeros = False

    def get_initial_state(batch_size: Any) -> Any:
        nonlocal zeros
        zeros = True
        return type(layer).get_initial_state(layer, batch_size)

    def inner_loop(
        sequences: Any, initial_state: list[Any], mask: Any, training: bool = False
    ) -> tuple[Any, Any, list[Any]]:
        nonlocal zeros
        from_zero, zeros = zeros, False  # the layer may be called again
        if mask is not None:
            raise _refusal(path, layer, "it receives a mask, and the operation knows none")
        if not from_zero:
            raise _refusal(path, layer, "it receives an initial_state, and starts from zero here")
        if layer.go_backwards:
            sequences = tf.reverse(sequences, [1])
        outputs, c = _placeholder(sequences, *_weights(layer.cell))
        outputs.set_shape((*sequences.shape[:2], layer.cell.units))
        c.set_shape((sequences.shape[0], layer.cell.units))
        last = outputs[:, -1]
        return last, outputs, [last, c]

    return {"get_initial_state": get_initial_state, "inner_loop": inner_loop}


@tf.function(experimental_implements=FUSABLE, autograph=False)
def _placeholder(x: Any, *weights: Any) -> tuple[Any, Any]:
    """What has the shapes of an LSTM's outputs, and of its c after the last timestep."""
    batch, time = tf.unstack(tf.shape(x)[:2])
    units = weights[-1].shape[0]
    return tf.zeros([batch, time, units]), tf.zeros([batch, units])


def _weights(cell: Any) -> list[Any]:
    """The operation's weights: kernels, recurrent kernels, biases and gammas, each for 4 gates."""
    kernels = [tf.split(tf.transpose(k), 4) for k in (cell.kernel, cell.recurrent_kernel)]
    biases = [tf.zeros([cell.units])] * 4 if cell.bias is None else tf.split(cell.bias, 4)
    norms = _norms(cell)
    if not norms:
        return [*kernels[0], *kernels[1], *biases]
    scales = [math.sqrt(EPSILON / norm.epsilon) for norm in norms]
    scaled = [w * s for gates in kernels for w, s in zip(gates, scales, strict=True)]
    gammas = [tf.ones([cell.units]) if n.gamma is None else n.gamma for n in norms]
    betas = [0.0 if n.beta is None else n.beta for n in norms]
    return [*scaled, *(b + beta for b, beta in zip(biases, betas, strict=True)), *gammas]


def _norms(cell: Any) -> list[Any]:
    """The norms of a cell's gates; none for a cell without."""
    layers = cell.slot_layers() if isinstance(cell, NormLSTMCell) else {}
    return [layers[f"{gate}_norm"] for gate in GATES] if layers else []


def _obstacle(cell: Any) -> str | None:
    """Why the operation cannot express a cell, or None."""
    if type(cell) not in CELLS:
        names = ", ".join(known.__name__ for known in CELLS)
        return f"the operation knows {names}, and no {type(cell).__name__}"
    for argument, only in (("activation", tanh), ("recurrent_activation", sigmoid)):
        if getattr(cell, argument) is not only:
            return f"the operation has {argument}={only.__name__} only"
    layers = cell.slot_layers() if isinstance(cell, NormLSTMCell) else {}
    if not layers:
        return None
    if cell.norm_form != "joint":
        return 'the operation has the joint form only, norm_form="joint"'
    if len(layers) < len(GATES):
        return "the operation has a norm in every gate or in none"
    return next(filter(None, (_obstacle_of_norm(s, layer) for s, layer in layers.items())), None)


def _obstacle_of_norm(slot: str, norm: Any) -> str | None:
    kind = f"its {slot} is {type(norm).__name__}"
    if type(norm) not in NORMS:
        return f"{kind}, and the operation has LayerNormalization only"
    if getattr(norm, "epsilon_placement", "inside") != "inside" or getattr(norm, "ddof", 0):
        return f'{kind}, and the operation has epsilon_placement="inside" and ddof=0 only'
    if norm.epsilon <= 0:
        return f"{kind} with epsilon={norm.epsilon}, and the operation needs one above 0"
    return None


def _refusal(path: str, layer: Any, reason: str) -> ValueError:
    return ValueError(
        f'layer "{path}" ({type(layer).__name__}) cannot be fused: {reason}. '
        "Export with fused=False"
    )
