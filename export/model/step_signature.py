"""A model timestep by timestep, where it gives what it gives for whole sequences."""

import functools
import logging
from collections.abc import Iterator
from typing import Any

import keras

from keras_norm.export.errors import StreamingError, VerificationError, one_line
from keras_norm.export.model.reference import Reference, make_reference
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.verification_inputs import long_case
from keras_norm.export.signature import named_function
from keras_norm.layers.batch_norm import BatchNormalization
from keras_norm.layers.layer_norm import LayerNormalization

logger = logging.getLogger("keras_norm.export")

MIXES_TIMESTEPS = (
    "a layer that is not recurrent mixes timesteps, as pooling, convolution and attention do"
)

# Layers that see one timestep at a time. What others look back on may be longer than the cases: a
# convolution of large dilation, a slice of the last timesteps.
ONE_BY_ONE = (
    keras.layers.InputLayer,
    keras.layers.RNN,
    keras.layers.Dense,
    keras.layers.Embedding,
    keras.layers.Masking,
    keras.layers.Dropout,
    keras.layers.Activation,
    keras.layers.LayerNormalization,
    keras.layers.BatchNormalization,
    LayerNormalization,
    BatchNormalization,
)


def find_step(
    model: keras.Model, wanted: bool | None = None, reference: Reference | None = None
) -> Step | None:
    """The model timestep by timestep, once it gave what the model gives for whole sequences.

    Args:
        model: a functional or a built sequential model.
        wanted: whether there has to be one; None for wherever there is one.
        reference: what it is to give; None for what the model gives for random samples.

    Returns:
        The step; None where it is not wanted, or there is none, and then the reason is logged.

    Raises:
        StreamingError: `wanted` is True, and the model cannot run timestep by timestep, or gives
            something else then.
        ValueError: `wanted` is something else.
    """
    if wanted not in (None, True, False):
        raise ValueError(f"step is None, True or False. Received: {wanted!r}.")
    if wanted is False:
        return None
    try:
        return _verified_step(model, reference)
    except StreamingError as error:
        if wanted:
            raise
        logger.info('model "%s" has no signature step: %s', model.name, error)
        return None


def _verified_step(model: keras.Model, reference: Reference | None) -> Step:
    step = Step(model)
    try:
        run = traced(step)
        run.get_concrete_function()  # a layer that refuses a step says why
        references = [reference or make_reference(model)]
        if not all(isinstance(layer, ONE_BY_ONE) for layer in _operations(model)):
            references.append(Reference(model, long_case(model)))
        for known in references:
            known.verify(
                functools.partial(step.over_time, run), "the step", suspect=MIXES_TIMESTEPS
            )
    except (StreamingError, VerificationError) as error:
        raise StreamingError(one_line(error)) from error
    # Whatever a layer raises at a length of one, which it may not take.
    except Exception as error:
        raise StreamingError(
            f"the model does not run on one timestep: {one_line(error)}"
        ) from error
    return step


def _operations(model: keras.Model) -> Iterator[Any]:
    """What a model is made of, slices and sums among the layers, and those of models in it."""
    for operation in getattr(model, "operations", model.layers):
        if isinstance(operation, keras.Model):
            yield from _operations(operation)
        else:
            yield operation


def traced(step: Step) -> Any:
    """`step.joined` as TensorFlow runs it fast: a function of one graph."""
    return named_function(step.joined, step.inputs | step.states)
