"""Write a Keras model as a SavedModel for TensorFlow Serving."""

import dataclasses
import logging
import numbers
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.errors import UnsupportedOpError, one_line
from keras_norm.export.formats.golden_cases import find_reference, make_proof, write_proof
from keras_norm.export.formats.refusals import refuse_unfit, warn_of_fixed_batch
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile, require_literal
from keras_norm.export.formats.saved_model.warmup import write_warmup
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.verify_file import verify_saved_model
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.single_step import Step
from keras_norm.export.model.step_signature import find_step
from keras_norm.export.optional_packages import require
from keras_norm.export.signature import SERVING_DEFAULT, STEP, TensorSpec
from keras_norm.ops.scan import exported_loops

logger = logging.getLogger("keras_norm.export")

LAST_VERSION = 2**63 - 1


def export_saved_model(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    step: bool | None = None,
    signatures: Mapping[str, Callable[..., Any]] | None = None,
    samples: Any = None,
    proof: bool = True,
    warmup: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as a SavedModel, in inference mode, and run it before it is used.

    Its signatures are `serving_default`, the model on whole sequences; `step`, one timestep of it
    from given states (`keras_norm.export.Step`); and `signatures`.

    Inputs and outputs have names (`keras_norm.export.signature`); batch, time and every other size
    that the model leaves open stay open. Nothing in it needs Keras, this package, XLA, a GPU or a
    custom op: Keras' recurrent layers are written as those of this package that compute the same
    (`model.layer_replacement`). The folder appears in one step, after its outputs were compared
    with the Keras model's: a server that polls it never sees half a model. A model of texts is not
    run, nor one that takes no random inputs where there are no `samples`; the reason is logged, at
    the level INFO.

    Args:
        model: a functional or a built sequential model.
        path: folder to write; missing parent folders are made.
        version: write `path/<version>/`, the layout that TensorFlow Serving polls; at least 1.
        step: whether there is a signature `step`, which is tested before it is written. None: where
            the model runs forward in time; why one does not is logged, at the level INFO.
        signatures: further ones, by name: functions from a dict of the model's inputs by name to a
            dict of tensors; or a `tf.function` with an `input_signature` of its own.
        samples: real ones, arrays (samples, ...) by input name, or one array for one input, which
            the file is run on: up to 3 of them. None for random ones.
        proof: whether the cases that it was run on go along, in `assets.extra`, for
            `keras-norm verify`.
        warmup: whether TensorFlow Serving runs the same cases when it loads the model, so that the
            first client need not wait.
        overwrite: whether it takes the place of a SavedModel that stands there. A `version` never
            does, as a server may hold it.

    Returns:
        The folder written: `path`, or `path/<version>`.

    Raises:
        FileExistsError: the folder exists, and `overwrite` is False; or it is no SavedModel, or a
            version.
        ImportError: there is to be a `warmup`, and tensorflow-serving-api is not installed.
        OSError: it cannot be written: no permission, a full disk.
        VerificationError: the file computes something else than the model.
        UnsupportedOpError: a layer brings an XLA op, a `jit_compile`d function, a custom op or one
            that no CPU has, which a server may not have.
        StreamingError: `step` is True, and the model cannot run timestep by timestep.
        ValueError: the model has no fixed inputs, a weight that is NaN, or a stateful layer, whose
            state all requests to a server would share; `version` is no positive integer; `path`
            ends like a file, or has a character that TensorFlow reads as a pattern; a name of
            `signatures` is taken; the model does not take the `samples`, or a `warmup` has no
            cases; the file reads a table that no layer holds.

    Example:
    ```python
    export_saved_model(model, "served/digits", version=1)  # served/digits/1/saved_model.pb
    ```
    """
    signature.input_specs(model)
    refuse_unfit(model)
    warn_of_fixed_batch(model)
    if not isinstance(proof, bool):
        raise ValueError(f"proof is True or False for a SavedModel. Received: {proof!r}.")
    if not isinstance(warmup, bool):
        raise ValueError(f"warmup must be True or False; received {warmup!r}")
    signatures = {} if signatures is None else signatures
    _require_functions(signatures)
    taken = {SERVING_DEFAULT, STEP} & set(signatures)
    if taken:
        raise ValueError(f"the signature {taken.pop()} is the exporter's own: choose another name")
    target = _target(path, version)
    if overwrite and target.exists():
        require_replaceable(target, version)
    if warmup:
        require("serving")
    with staged(target, overwrite, is_folder=True) as folder:
        reference = find_reference(model, samples)
        if warmup and not reference:
            raise ValueError("a warmup needs cases: give samples, of numbers, that the model takes")
        with portable_layers(model):
            stepper = find_step(model, step, reference)
            with exported_loops("saved_model"):
                write_saved_model(model, folder, stepper, signatures)
        _refuse_unservable(folder)
        if reference:
            over_time = None if stepper is None else stepper.over_time
            if not verify_saved_model(folder, reference, over_time):
                logger.warning(
                    'model "%s" gives other outputs at a second call: it is random in inference, '
                    "or changes a variable. These outputs were not compared, and the file has no "
                    "cases for keras-norm verify",
                    model.name,
                )
                proof = False
            found = make_proof(reference, stepper)
            if proof:
                write_proof(folder, found)
            if warmup:
                write_warmup(folder, found.cases)
    return target


def write_saved_model(
    model: keras.Model,
    folder: pathlib.Path,
    step: Step | None = None,
    signatures: Mapping[str, Callable[..., Any]] | None = None,
    alone: bool = False,
) -> None:
    """Trace `model` in inference mode with named inputs and outputs, and write it to `folder`.

    Args:
        model: a functional or a built sequential model.
        folder: where to.
        step: the model timestep by timestep, for the signature `step`.
        signatures: further ones, as for `export_saved_model`.
        alone: whether `step` is all that there is, of one stream at a time where the model's batch
            is open: a microcontroller has no open sizes.
    """
    specs = signature.input_specs(model)
    traced = {}
    if not alone:
        traced[SERVING_DEFAULT] = signature.named_function(
            lambda inputs: signature.call(model, inputs), specs
        )
    if step is not None:
        ends = step.inputs | step.states
        traced[STEP] = signature.named_function(
            step.joined, _with_one_batch(ends) if alone else ends
        )
    # What is saved are these graphs: Keras' archive traces four times.
    graphs = {name: function.get_concrete_function() for name, function in traced.items()}
    for name, function in (signatures or {}).items():
        graphs[name] = _graph_of(name, function, specs)
    module = tf.Module()
    module.read = [variable for graph in graphs.values() for variable in graph.variables]
    module.tables = _tables(model)
    try:
        tf.saved_model.save(module, str(folder), signatures=graphs)
    except tf.errors.OpError as error:
        # A full disk, say, in TensorFlow's own words: the file, and why it cannot be written.
        raise OSError(f"the SavedModel cannot be written: {one_line(error)}") from error
    except AssertionError as error:
        if "untracked" not in str(error):
            raise
        raise ValueError(
            "the model or one of `signatures` reads a table, or another resource, that no layer of "
            "the model holds, so it cannot be saved: make it an attribute of a layer"
        ) from error


def _require_functions(signatures: Any) -> None:
    """Raise ValueError for signatures that are not functions by name."""
    if not isinstance(signatures, Mapping):
        kind = type(signatures).__name__
        raise ValueError(f"signatures takes a dict of functions by name; received {kind}")
    for name, function in signatures.items():
        # TensorFlow keeps names that begin with two underscores for itself.
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise ValueError(
                f"signatures takes names that do not begin with two underscores; received {name!r}"
            )
        if not callable(function):
            raise ValueError(f'the signature "{name}" takes a function; received {function!r}')


def _graph_of(name: str, function: Any, specs: Mapping[str, TensorSpec]) -> Any:
    """Trace a signature of the user's.

    Raises:
        ValueError: the function fails, or returns something else than a dict of tensors.
    """
    try:
        if getattr(function, "input_signature", None) is None:
            tensors = {n: tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in specs.items()}
            function = tf.function(function, input_signature=[tensors], autograph=False)
        graph = function.get_concrete_function()
    # Whatever the user's function raises.
    except Exception as error:
        raise ValueError(
            f'the signature "{name}" fails: {type(error).__name__}: {one_line(error)}. It is '
            f"called with one dict of tensors, of the inputs {', '.join(specs)}"
        ) from error
    found = graph.structured_outputs
    if not (isinstance(found, Mapping) and all(map(tf.is_tensor, found.values()))):
        raise ValueError(
            f'the signature "{name}" must return a dict of tensors by name; received {found!r}'
        )
    return graph


def _with_one_batch(specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    """The same for the batch that one of them has, or else for a batch of 1."""
    batch = next(filter(None, (spec.shape[0] for spec in specs.values())), 1)
    return {
        name: dataclasses.replace(spec, shape=(batch, *spec.shape[1:]))
        for name, spec in specs.items()
    }


def _tables(model: keras.Model) -> list[Any]:
    """What else than variables a graph reads: lookup tables, held by layers in whatever form."""
    resource = tf.saved_model.experimental.TrackableResource
    found: dict[int, Any] = {}
    todo: list[Any] = [model]
    while todo:
        part = todo.pop()
        if id(part) in found:
            continue
        if isinstance(part, Mapping):
            todo += part.values()
        elif isinstance(part, list | tuple | set):
            todo += part
        elif isinstance(part, keras.layers.Layer | tf.Module):
            todo += vars(part).values()
        elif not isinstance(part, resource):
            continue
        found[id(part)] = part
    return [part for part in found.values() if isinstance(part, resource)]


def _refuse_unservable(folder: pathlib.Path) -> None:
    ops = SavedModelFile(folder).unservable
    if ops:
        listed = "; ".join(f"{op} in {', '.join(sorted(set(n)))}" for op, n in ops.items())
        raise UnsupportedOpError(
            f"the model needs what a TensorFlow server may not have: {listed}. Replace the layer, "
            "or build it without jit_compile",
            ops,
        )


def require_replaceable(target: pathlib.Path, version: int | None) -> None:
    """Raise FileExistsError where a SavedModel may not take the place of what stands there.

    Args:
        target: what stands there.
        version: of the SavedModel, or None: a folder of that name is one too.
    """
    if version is not None or target.name.isdecimal():
        raise FileExistsError(
            f"{target} exists, and a version that a server may hold is never overwritten: give a "
            "higher version"
        )
    if not (target / "saved_model.pb").is_file():
        raise FileExistsError(f"{target} is no SavedModel, and is not overwritten by one")


def _target(path: str | os.PathLike[str], version: int | None) -> pathlib.Path:
    folder = require_literal(pathlib.Path(path))
    if folder.suffix in {".keras", ".h5", ".pb", ".tflite"}:
        raise ValueError(f"a SavedModel is a folder; received the file name {folder}")
    if version is None:
        return folder
    if isinstance(version, bool) or not isinstance(version, numbers.Integral) or version < 1:
        raise ValueError(f"version must be an integer of at least 1; received {version!r}")
    if version > LAST_VERSION:
        raise ValueError(
            f"version must be at most {LAST_VERSION}, as TensorFlow Serving reads 64 bits; "
            f"received {version}"
        )
    if (folder / "saved_model.pb").exists():
        raise FileExistsError(
            f"{folder} is a SavedModel itself, so no version can stand in it: choose another folder"
        )
    return folder / str(version)
