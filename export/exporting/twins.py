"""A model with every recurrent layer of Keras' own as one that runs in any exported format.

Keras writes the loops of its recurrent layers so that a TFLite file takes one batch and one length
only, and on a GPU as an operation that no other device has. What computes the same, by the loops of
this package, has neither fault.
"""

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_norm.clone import rebuilt
from keras_norm.export.comparing.reference import Reference, make_reference
from keras_norm.export.errors import TextError, VerificationError
from keras_norm.export.runners import KerasRunner
from keras_norm.ops.scan import scan
from keras_norm.rnn.gru import NormGRU
from keras_norm.rnn.lstm import NormLSTM
from keras_norm.rnn.replaceable import ReplaceableRNN
from keras_norm.rnn.simple_rnn import NormSimpleRNN
from keras_norm.walk import named_layers

logger = logging.getLogger(__name__)


@keras.saving.register_keras_serializable(package="keras_norm.export")
class CellLoop(ReplaceableRNN):
    """`keras.layers.RNN` at inference: any cell, in a loop of `keras_norm.ops.scan`."""

    def own_loop(
        self, sequences: Any, initial_state: Any, mask: Any, training: bool = False
    ) -> tuple[Any, Any, Any]:
        """Run the loop, as `inner_loop` says."""
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        xs = [sequences] if mask is None else [sequences, ops.expand_dims(mask, -1)]
        xs = [ops.flip(x, axis=1) if self.go_backwards else x for x in xs]
        xs = [ops.swapaxes(x, 0, 1) for x in xs]
        takes_training = "training" in inspect.signature(self.cell.call).parameters
        options = {"training": False} if takes_training else {}

        # The output of a masked step is the one before it, zeros at first. Where no step reads it,
        # it is not carried: OpenVINO loses a carry that is only written where no turn is taken.
        repeats = mask is not None and not self.zero_output_for_mask

        def step(carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
            x, *alive = xs
            still, states = carry[:repeats], carry[repeats:]
            before = keras.tree.pack_sequence_as(initial_state, states)
            output, after = self.cell(x, before, **options)
            new = [output, *keras.tree.flatten(after)]
            if alive:
                kept = zip(new, [*(still or [ops.zeros_like(output)]), *states], strict=True)
                new = [ops.where(alive[0], n, old) for n, old in kept]
            return new[not repeats :], new[:1]

        first = _zeros(xs[0], self.cell.output_size, self.compute_dtype)
        states = [*[first] * repeats, *keras.tree.flatten(initial_state)]
        states, (path,) = scan(step, xs, states, [first], unroll=self.unroll)
        last = states.pop(0) if repeats else path[-1]
        return last, ops.swapaxes(path, 0, 1), keras.tree.pack_sequence_as(initial_state, states)


@keras.saving.register_keras_serializable(package="keras_norm.export")
class Lookup(keras.layers.Embedding):
    """`keras.layers.Embedding` of ids from 0 on, as one operation.

    Keras takes negative ids for others, by operations that TensorFlow's quantizer has no 16 bits
    for, nor a microcontroller a kernel.
    """

    def call(self, inputs: Any) -> Any:
        """The embeddings of integers of any shape."""
        rows = tf.gather(self.embeddings, ops.cast(inputs, "int32"))
        return ops.cast(rows, self.compute_dtype)


TWINS = {
    keras.layers.LSTM: NormLSTM,
    keras.layers.GRU: NormGRU,
    keras.layers.SimpleRNN: NormSimpleRNN,
    keras.layers.RNN: CellLoop,
}
# What a file of the step alone has besides.
LOOKUPS = {keras.layers.Embedding: Lookup}
# Cells of Keras' that draw dropout masks at inference too, and use none: a served graph would write
# to the variable that holds the seed.
DROPPING = ("LSTMCell", "GRUCell", "SimpleRNNCell")
TWIN_DIFFERS = "one of its layers keeps what its config does not say"


def with_twins(
    model: keras.Model,
    reference: Reference | None = None,
    twins: Mapping[type, type] = TWINS,
) -> keras.Model:
    """The model with layers of Keras' own replaced by those that compute the same in every file.

    `keras.layers.LSTM`, GRU and SimpleRNN become `NormLSTM`, `NormGRU` and `NormSimpleRNN` with
    `norm=None`, and `keras.layers.RNN` of any cell another loop over the same cell: alone, in
    wrappers or in nested models, under the same names and with the same weights. Subclasses of
    these, and other recurrent layers, stay as they are. With `LOOKUPS` `keras.layers.Embedding`
    becomes `Lookup`.

    Args:
        model: a functional or a built sequential model. It is not touched.
        reference: what the model gives; None for random samples, and nothing for texts.
        twins: Keras' classes, each with what replaces it.

    Returns:
        Another model, which gave what the reference says; or the same, where nothing is to be
        replaced, or it cannot be, and then the reason is logged.
    """
    if not any(type(layer) in twins for _, layer in named_layers(model)):
        return model
    change = functools.partial(_replaced, {c.__name__: t for c, t in twins.items()})
    return _changed(model, change, reference)


def unrolled(model: keras.Model, reference: Reference | None = None) -> keras.Model:
    """The model with the loops that have no twin as one timestep after another.

    They are those of other recurrent layers of Keras' and of subclasses, where time is fixed.
    Keras' own loop converts to TFLite with a fixed batch only.

    Args:
        model: of `with_twins`. It is not touched.
        reference: as for `with_twins`.

    Returns:
        As `with_twins`.
    """
    names = {layer.name for _, layer in named_layers(model) if _can_be_unrolled(layer)}
    return _changed(model, functools.partial(_with_unroll, names), reference) if names else model


def _changed(
    model: keras.Model, change: Callable[[Any], Any], reference: Reference | None
) -> keras.Model:
    try:
        twin = rebuilt(model, change)
        with contextlib.suppress(TextError):
            reference = reference or make_reference(model)
            reference.verify(KerasRunner(twin), "its twin", suspect=TWIN_DIFFERS)
    except (ValueError, VerificationError) as error:
        logger.warning('model "%s" is exported with the layers of Keras: %s', model.name, error)
        return model
    return twin


def _can_be_unrolled(layer: Any) -> bool:
    if not isinstance(layer, keras.layers.RNN) or isinstance(layer, ReplaceableRNN):
        return False
    built = layer.get_build_config() or {}
    shape = built.get("input_shape") or built.get("shapes_dict", {}).get("sequences_shape")
    return not layer.unroll and shape is not None and shape[1] is not None


def _with_unroll(names: Collection[str], config: dict[str, Any]) -> dict[str, Any]:
    """A part of a serialized model, unrolled if it is a layer of one of these names."""
    if "unroll" in config and config.get("name") in names:
        config["unroll"] = True
    return config


def _replaced(twins: Mapping[str, type], config: dict[str, Any]) -> dict[str, Any]:
    """A part of a serialized model, of another class if it has a twin."""
    if config.get("module") == "keras.layers":
        if config["class_name"] in DROPPING:
            config["config"] |= {"dropout": 0.0, "recurrent_dropout": 0.0}
        twin = twins.get(config["class_name"])
        if twin is not None:
            config["module"], config["class_name"] = twin.__module__, twin.__name__
            config["registered_name"] = keras.saving.get_registered_name(twin)
    return config


def _zeros(x: Any, size: Any, dtype: str) -> Any:
    """Zeros (batch, ...) for x of (time, batch, ...)."""
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return ops.zeros((ops.shape(x)[1], *sizes), dtype)
