"""Find a model's single-step model, and check its outputs against whole sequences."""

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

# Layers that read one timestep at a time. Any other layer may read more timesteps than the usual
# test inputs have: a convolution with a large dilation, or a slice of the last timesteps.
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
    model: keras.Model,
    wanted: bool | None = None,
    reference: Reference | None = None,
    *,
    center_kernels: bool = False,
) -> Step | None:
    """Make a model's single-step model, and check its outputs against whole sequences.

    Args:
        model: a functional or a built sequential model.
        wanted: True if the step is required, False for no step, None for a step if possible.
        reference: the model's outputs to compare with; None to compute them for random samples.
        center_kernels: as for `Step`.

    Returns:
        The single-step model. None if `wanted` is False, or if `wanted` is None and the model has
        no step with equal outputs; the reason is then logged.

    Raises:
        StreamingError: `wanted` is True, and the model cannot run timestep by timestep, or has
            different outputs timestep by timestep.
        ValueError: `wanted` is not True, False or None.
    """
    if wanted not in (None, True, False):
        raise ValueError(f"step is None, True or False. Received: {wanted!r}.")
    if wanted is False:
        return None
    try:
        return _verified_step(Step(model, center_kernels=center_kernels), reference)
    except StreamingError as error:
        if wanted:
            raise
        logger.info('model "%s" has no signature step: %s', model.name, error)
        return None


def _verified_step(step: Step, reference: Reference | None) -> Step:
    model = step.model
    try:
        run = traced(step)
        run.get_concrete_function()  # raises the error of a layer that does not support a step
        references = [reference or make_reference(model)]
        if not all(isinstance(layer, ONE_BY_ONE) for layer in _operations(model)):
            references.append(Reference(model, long_case(model)))
        for known in references:
            known.verify(
                functools.partial(step.over_time, run), "the step", suspect=MIXES_TIMESTEPS
            )
    except (StreamingError, VerificationError) as error:
        raise StreamingError(one_line(error)) from error
    # A layer may raise any error for sequences of one timestep.
    except Exception as error:
        raise StreamingError(
            f"the model does not run on one timestep: {one_line(error)}"
        ) from error
    return step


def _operations(model: keras.Model) -> Iterator[Any]:
    """Yield a model's layers and operations (slices, sums), also inside nested models."""
    for operation in getattr(model, "operations", model.layers):
        if isinstance(operation, keras.Model):
            yield from _operations(operation)
        else:
            yield operation


def traced(step: Step) -> Any:
    """Compile `step.joined` to one TensorFlow graph, which runs faster than eager calls."""
    return named_function(step.joined, step.inputs | step.states)
