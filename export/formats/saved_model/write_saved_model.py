"""Trace a Keras model into the signatures of a SavedModel, and write the SavedModel."""

import contextlib
import dataclasses
import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping

import keras
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.errors import one_line
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.tensorflow_process import RemoteFunction
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.typing import Nest, Tensor

# Type of a signature's function: it maps a dict of inputs by name to a dict of outputs by name.
SignatureFunction = Callable[[dict[str, Tensor]], Mapping[str, Tensor]]


def write_saved_model(
    model: keras.Model,
    folder: pathlib.Path,
    step: Step | None = None,
    signatures: Mapping[str, SignatureFunction] | None = None,
    step_only: bool = False,
) -> None:
    """Trace `model` in inference mode with named inputs and outputs, and write it to `folder`.

    Args:
        model: a functional or a built sequential model.
        folder: the folder to write.
        step: the single-step model for the step signature; None writes no step signature.
        signatures: more signatures, as for `export_saved_model`.
        step_only: whether to write the step signature without `serving_default`. A dynamic batch is
            then fixed to 1, because microcontrollers support static dimensions only.
    """
    specs = signature.input_specs(model)
    traced = {}
    if not step_only:
        traced[SERVING_DEFAULT] = signature.named_function(
            lambda inputs: signature.call(model, inputs), specs
        )
    if step is not None:
        step_specs = step.inputs | step.states
        if step_only:
            step_specs = _with_static_batch(step_specs)
        traced[STEP] = signature.named_function(step.joined, step_specs)
    # Trace each function once, here. Keras' export archive would trace the model four times.
    graphs = {name: function.get_concrete_function() for name, function in traced.items()}
    for name, function in (signatures or {}).items():
        graphs[name] = _trace_signature(name, function, specs)
    module = tf.Module()
    module.read = [variable for graph in graphs.values() for variable in graph.variables]
    module.tables = _tables(model)
    try:
        with _without_log_of_path():
            tf.saved_model.save(module, str(folder), signatures=graphs)
    except tf.errors.OpError as error:
        # TensorFlow raises an OpError if the disk is full, for example. Its message names the file
        # and the reason.
        raise OSError(f"the SavedModel cannot be written: {one_line(error)}") from error
    except AssertionError as error:
        if "untracked" not in str(error):
            raise
        raise ValueError(
            "TensorFlow cannot save a table or another resource that the model, or a function of "
            "`signatures`, reads: make it an attribute of a layer"
        ) from error


@contextlib.contextmanager
def _without_log_of_path() -> Iterator[None]:
    """Hide TensorFlow's message "Assets written to: PATH", because PATH is temporary.

    In a notebook TensorFlow prints its messages of the level INFO.
    """

    def keep(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Assets written")

    tf.get_logger().addFilter(keep)
    try:
        yield
    finally:
        tf.get_logger().removeFilter(keep)


def require_functions(signatures: Mapping[str, SignatureFunction]) -> None:
    """Raise ValueError unless `signatures` is a dict from valid names to functions."""
    if not isinstance(signatures, Mapping):
        kind = type(signatures).__name__
        raise ValueError(f"signatures must be a dict of functions by name; received {kind}")
    for name, function in signatures.items():
        # TensorFlow reserves names that begin with two underscores.
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise ValueError(
                "the names of signatures must be strings that do not begin with two underscores; "
                f"received {name!r}"
            )
        if isinstance(function, RemoteFunction):
            raise ValueError(
                f'signatures= needs the TensorFlow backend, because TensorFlow traces "{name}". '
                "Save the model, load it with KERAS_BACKEND=tensorflow, and export it there"
            )
        if not callable(function):
            raise ValueError(f'the signature "{name}" must be a function; received {function!r}')


def _trace_signature(
    name: str, function: SignatureFunction, specs: Mapping[str, TensorSpec]
) -> tf.types.experimental.ConcreteFunction:
    """Trace a user's function, to write it as a signature of the SavedModel.

    Raises ValueError if the function fails, or does not return a dict of tensors.
    """
    try:
        graph_function: tf.types.experimental.PolymorphicFunction = function
        if getattr(function, "input_signature", None) is None:
            tensors = {n: tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in specs.items()}
            graph_function = tf.function(function, input_signature=[tensors], autograph=False)
        graph = graph_function.get_concrete_function()
    # Catch any exception, because the user's function can raise any.
    except Exception as error:
        raise ValueError(
            f'the signature "{name}" fails: {type(error).__name__}: {one_line(error)}. The '
            f"exporter calls the function with one dict of tensors, whose keys are the names of "
            f"the inputs: {', '.join(specs)}"
        ) from error
    outputs = graph.structured_outputs
    if not (isinstance(outputs, Mapping) and all(map(tf.is_tensor, outputs.values()))):
        raise ValueError(
            f'the signature "{name}" must return a dict of tensors by name; received {outputs!r}'
        )
    return graph


def _with_static_batch(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    """Return the input specs with a static batch size: the size that a spec already has, or 1."""
    batch = next(filter(None, (spec.shape[0] for spec in specs.values())), 1)
    return {
        name: dataclasses.replace(spec, shape=(batch, *spec.shape[1:]))
        for name, spec in specs.items()
    }


def _tables(model: keras.Model) -> list[tf.saved_model.experimental.TrackableResource]:
    """Return the lookup tables in a model's layers, also from nested lists, dicts and modules."""
    resource = tf.saved_model.experimental.TrackableResource
    found: dict[int, Nest] = {}
    pending: list[Nest] = [model]
    while pending:
        part = pending.pop()
        if id(part) in found:
            continue
        if isinstance(part, Mapping):
            pending += part.values()
        elif isinstance(part, list | tuple | set):
            pending += part
        elif isinstance(part, keras.layers.Layer | tf.Module):
            pending += vars(part).values()
        elif not isinstance(part, resource):
            continue
        found[id(part)] = part
    return [part for part in found.values() if isinstance(part, resource)]
