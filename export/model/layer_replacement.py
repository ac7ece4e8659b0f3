"""Replace methods of layers during an export, so that every exported format can run the model.

The loops of Keras' recurrent layers convert to TFLite with a static batch size and length only. On
a GPU, Keras runs an operation that no other device has. `TimeDistributed` is wrong in a graph with
a dynamic time dimension. Recurrent layers of this package may be compiled by XLA. While a model is
traced for an exported file, other functions are called in place of the methods of these layers. The
model itself is neither rebuilt nor changed.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_norm.named_layers import named_layers
from keras_norm.ops.scan import scan
from keras_norm.rnn import KERAS_CELLS, loop
from keras_norm.rnn.call_arguments import broadcast_rows
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.rnn.sequence_inputs import Results
from keras_norm.substitution import Function, Owner, Substitutes, substituted_functions
from keras_norm.time_distributed import apply_to_rows
from keras_norm.typing import Nest, Shape, Tensor, Tensors

CELL_OPTIONS = ("units", "activation", "recurrent_activation", "use_bias", "reset_after")
LAYER_OPTIONS = ("return_sequences", "go_backwards", "unroll", "zero_output_for_mask")
WEIGHTS = ("kernel", "recurrent_kernel", "bias")

# A cell as a function: it receives (inputs, states) of a timestep, and returns (output, states).
Cell: TypeAlias = Callable[[Tensor, Nest], tuple[Tensor, Nest]]
# Results of a recurrent layer's loop: the last output, the output sequence and the last states.
LoopResults: TypeAlias = tuple[Tensor, Tensor, Nest]


@contextlib.contextmanager
def portable_layers(
    model: keras.layers.Layer, functions: Substitutes | None = None, *, one_lookup: bool = False
) -> Iterator[None]:
    """Replace methods of a model's layers in a `with` block, so that exported files can run them.

    The substitution covers layers inside wrappers, nested models and user-defined layers. It also
    covers subclasses of Keras' layers that do not override the replaced method. The model is not
    changed, and other threads may call it.

    Args:
        model: a Keras model or layer.
        functions: functions that replace functions of keras_norm for the format, such as the scan
            over time, which also user-defined layers may call.
        one_lookup: trace every Embedding as one operation. Keras' Embedding also accepts negative
            ids, for which it needs operations without a 16-bit version. Microcontrollers lack these
            operations.
    """
    substitutes: dict[Owner, dict[str, Function]] = {
        NormRNN: {"run_recurrence": _run_exported_loop}
    }
    for _, layer in named_layers(model):
        if isinstance(layer, keras.layers.RNN) and not isinstance(layer, NormRNN):
            substitutes[layer] = _portable_loop(layer)
        elif _inherits(layer, keras.layers.TimeDistributed, "call"):
            substitutes[layer] = {"call": functools.partial(_time_distributed, layer)}
        elif one_lookup and _inherits(layer, keras.layers.Embedding, "call"):
            substitutes[layer] = {"call": functools.partial(_lookup, layer)}
    with substituted_functions({**substitutes, **(functions or {})}):
        yield


def _run_exported_loop(
    layer: NormRNN,
    sequences: Tensor,
    states: Tensors,
    mask: Tensor,
    training: bool,
    resets: Tensor | None = None,
) -> Results:
    """Run a layer's timesteps without XLA, so that an exported file has no XLA operation.

    A dynamic number of rows is not checked, unlike in `NormRNN.run_recurrence`.
    """
    batch, time, _ = ops.shape(sequences)
    sizes = [(batch, units) for units in (*layer.state_size, *layer.state_size)]
    states = [
        broadcast_rows(state, size) if state.shape[0] == 1 else state
        for state, size in zip(states, sizes, strict=False)
    ]
    if mask is not None and mask.shape[0] == 1:
        mask = broadcast_rows(mask, (batch, time))
    masks = layer.cell.draw_masks(sequences, states, training)
    return loop.run(
        layer.cell,
        sequences,
        states,
        mask,
        training,
        masks,
        return_sequences=layer.return_sequences,
        unroll=layer.unroll,
        resets=resets,
    )


def has_keras_loop(layer: keras.layers.RNN) -> bool:
    """Return False if a user's recurrent layer overrides `inner_loop`, the loop over timesteps.

    A layer that overrides `inner_loop` may compute anything.
    """
    return isinstance(layer, NormRNN) or type(layer).inner_loop.__module__.startswith("keras.")


def replacement_layer(layer: keras.layers.RNN) -> NormRNN | None:
    """Create a keras_norm layer that uses the weights of a Keras layer and has equal outputs.

    `has_keras_loop` must be True for the layer. Do not call the function inside a graph: it creates
    variables. A keras_norm layer is returned unchanged. The result is None for another cell than
    Keras' LSTM, GRU or SimpleRNN cell.
    """
    if isinstance(layer, NormRNN):
        return layer
    cell = layer.cell
    replacement = KERAS_CELLS.get(type(cell))
    if replacement is None:
        return None
    options = {name: getattr(cell, name) for name in CELL_OPTIONS if hasattr(cell, name)}
    options |= {name: getattr(layer, name) for name in LAYER_OPTIONS}
    new: NormRNN = replacement(**options, name=layer.name, dtype=cell.dtype_policy, compiled=False)
    # An ordinary assignment would add the weights to the new layer's list of weights. Only the
    # original layer must list them, so use `object.__setattr__`.
    for name in WEIGHTS:
        object.__setattr__(new.cell, name, getattr(cell, name))
    new.built = new.cell.built = True
    return new


def _portable_loop(layer: keras.layers.RNN) -> dict[str, Function]:
    if not has_keras_loop(layer):
        return {"inner_loop": functools.partial(_unrolled_loop, layer)}
    replacement = replacement_layer(layer)
    loop = functools.partial(_cell_loop, layer) if replacement is None else replacement.inner_loop
    # Draw no dropout masks: inference does not use them. Keras draws them at inference too, and the
    # exported graph would then write to the variable of the random seed.
    return {"inner_loop": loop, "_maybe_config_dropout_masks": lambda *_: None}


def _cell_loop(
    layer: keras.layers.RNN,
    sequences: Tensor,
    initial_state: Nest,
    mask: Nest,
    training: bool = False,
) -> LoopResults:
    """Run a cell over all timesteps in inference mode, in a loop of `keras_norm.ops.scan`."""
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    xs = [sequences] if mask is None else [sequences, mask]
    xs = [ops.flip(x, axis=1) if layer.go_backwards else x for x in xs]
    xs = [ops.moveaxis(x, 1, 0) for x in xs]
    cell = at_inference(layer.cell)
    # The output of a masked timestep is the previous output, or zeros at the start of the sequence.
    # So with a mask, the loop passes the output from one iteration to the next. Without a mask, no
    # iteration would read a passed output, so the loop does not pass it. In a sequence without
    # timesteps, OpenVINO would lose a passed value that no iteration reads.
    repeats = mask is not None and not layer.zero_output_for_mask
    first = _zero_output(cell, xs[0], initial_state)

    def step(carry: Tensors, xs: Tensors) -> tuple[Tensors, Tensors]:
        x, *unmasked = xs
        last, states = carry[:repeats], carry[repeats:]
        output, after = cell(x, keras.tree.pack_sequence_as(initial_state, states))
        new = [output, *keras.tree.flatten(after)]
        if unmasked:
            old = [*(last or [ops.zeros_like(output)]), *states]
            new = [where_unmasked(unmasked[0], n, o) for n, o in zip(new, old, strict=True)]
        return new[not repeats :], new[:1]

    states = [*[first] * repeats, *keras.tree.flatten(initial_state)]
    states, (outputs,) = scan(step, xs, states, [first], unroll=layer.unroll)
    last = states.pop(0) if repeats else outputs[-1]
    outputs = ops.moveaxis(outputs, 0, 1)
    return last, outputs, keras.tree.pack_sequence_as(initial_state, states)


def at_inference(cell: keras.layers.Layer) -> Cell:
    """Return a cell as a function of inputs and states, in inference mode."""
    takes_training = "training" in inspect.signature(cell.call).parameters
    return functools.partial(cell, training=False) if takes_training else cell


def _zero_output(cell: Cell, xs: Tensor, states: Nest) -> Tensor:
    """Return zeros in the shape of a cell's output at one timestep, (batch, ...)."""

    def spec(x: Tensor, shape: Shape) -> tf.TensorSpec:
        return tf.TensorSpec(shape, x.dtype)

    x = spec(xs, xs.shape[1:])
    states = keras.tree.map_structure(lambda s: spec(s, s.shape), states)
    # Trace the cell in a separate graph to get the shape of the output. A plain call would add the
    # operations of the cell to the exported file.
    traced = tf.function(lambda x, states: cell(x, states)[0], autograph=False)
    output = traced.get_concrete_function(x, states).structured_outputs
    return tf.zeros([ops.shape(xs)[1], *output.shape[1:]], output.dtype)


def where_unmasked(unmasked: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return `new` for each sequence whose current timestep is unmasked, `old` for other sequences.

    `unmasked` has the shape (batch,); `new` and `old` are (batch, ...).
    """
    shape = (-1, *[1] * (len(new.shape) - 1))
    return ops.where(ops.reshape(unmasked, shape), new, old)


def _unrolled_loop(
    layer: keras.layers.RNN, sequences: Tensor, *args: Nest, **kwargs: Nest
) -> LoopResults:
    """Run the loop of a user's RNN subclass, unrolled if the number of timesteps is static.

    Keras' loop converts to TFLite with a static batch size only. The unrolled loop converts with
    any batch size.
    """
    before, vars(layer)["unroll"] = layer.unroll, sequences.shape[1] is not None
    try:
        results: LoopResults = type(layer).inner_loop(layer, sequences, *args, **kwargs)
        return results
    finally:
        vars(layer)["unroll"] = before


def _time_distributed(
    layer: keras.layers.TimeDistributed,
    inputs: Tensor,
    training: bool | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    if inputs.shape[1] is not None:
        return type(layer).call(layer, inputs, training=training, mask=mask)
    return apply_to_rows(layer, inputs, training, mask)


def _lookup(layer: keras.layers.Embedding, inputs: Tensor) -> Tensor:
    """Look up embeddings by one gather operation, which does not accept negative ids."""
    rows = tf.gather(layer.embeddings, ops.cast(inputs, "int32"))
    return ops.cast(rows, layer.compute_dtype)


def _inherits(layer: keras.layers.Layer, cls: type, method: str) -> bool:
    """Return whether a layer is an instance of `cls` and does not override the given method."""
    return isinstance(layer, cls) and getattr(type(layer), method) is getattr(cls, method)
