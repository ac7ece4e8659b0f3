"""Make the `Step` of a Keras model, which runs one timestep at a time, and verify its outputs."""

import functools
import logging

import keras

from keras_norm.export.errors import StreamingError, VerificationError, one_line
from keras_norm.export.model.expected_outputs import long_sequence
from keras_norm.export.model.judge import Judge, judge_for_export
from keras_norm.export.model.single_step import Step

logger = logging.getLogger("keras_norm.export")

# Keras' layers whose outputs at a timestep depend only on the inputs at this timestep and on
# states. Layers of other classes can set the attribute `reads_single_timesteps = True`.
READ_SINGLE_TIMESTEPS = (
    keras.layers.InputLayer,
    keras.layers.RNN,
    keras.layers.Dense,
    keras.layers.Embedding,
    keras.layers.Masking,
    keras.layers.Dropout,
    keras.layers.Activation,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
    keras.layers.BatchNormalization,
)

MIXES_TIMESTEPS = (
    "a layer that is not recurrent, such as pooling or convolution, combines several timesteps"
)


def find_step(
    model: keras.Model,
    wanted: bool | None = None,
    judge: Judge | None = None,
    *,
    center_kernels: bool = False,
) -> Step | None:
    """Create a `Step`, which runs a model one timestep at a time, and verify its outputs.

    Args:
        model: a functional or a built sequential model.
        wanted: True if the step is required, False for no step, None for a step if possible and the
            time is dynamic.
        judge: the model's outputs to compare with; None to compute them for random samples.
        center_kernels: as for `Step`.

    Returns:
        The step, or None: without `wanted`, the reason is logged if no step has equal outputs.

    Raises:
        StreamingError: `wanted` is True, and no step has equal outputs.
        ValueError: `wanted` is not True, False or None.
    """
    if wanted not in (None, True, False):
        raise ValueError(f"step must be None, True or False. Received: {wanted!r}.")
    if wanted is False:
        return None
    try:
        step = Step(model, center_kernels=center_kernels)
        if wanted is None and step.length is not None:
            raise StreamingError(
                "the number of timesteps is static: pass step=True to export a single-step model"
            )
        _verify_step(step, judge)
    except StreamingError as error:
        if wanted:
            raise
        logger.info('model "%s" has no signature step: %s', model.name, error)
        return None
    return step


def _verify_step(step: Step, judge: Judge | None) -> None:
    """Raise StreamingError if the model has other outputs when it runs one timestep at a time."""
    model = step.model
    try:
        run = step.trace()
        # Tracing the graph raises an error if a layer cannot run on one timestep.
        run.get_concrete_function()
        judge = judge or judge_for_export(model)
        judges = [judge]
        if not reads_single_timesteps(model) and (long := long_sequence(model, judge.run)):
            judges.append(Judge(model, long, judge.run))
        run_step = functools.partial(step.over_time, run)
        for each in judges:
            each.verify(run_step, "the step", suspect=MIXES_TIMESTEPS)
    except (StreamingError, VerificationError) as error:
        raise StreamingError(one_line(error)) from error
    # A layer may raise any error for sequences of one timestep, so catch every exception.
    except Exception as error:
        raise StreamingError(
            f"the model does not run on one timestep: {one_line(error)}"
        ) from error


def reads_single_timesteps(model: keras.Model) -> bool:
    """Return False if a layer, such as a convolution, may combine several timesteps.

    Recurrent layers do not count, because they combine timesteps by their states. The test inputs
    may be too short for a comparison to find a layer that combines timesteps.
    """
    return all(
        reads_single_timesteps(operation)
        if isinstance(operation, keras.Model)
        else getattr(
            operation, "reads_single_timesteps", isinstance(operation, READ_SINGLE_TIMESTEPS)
        )
        for operation in getattr(model, "operations", model.layers)
    )
