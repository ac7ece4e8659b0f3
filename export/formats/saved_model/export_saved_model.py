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
from keras_norm.export.formats.golden_cases import (
    find_reference,
    make_golden_cases,
    write_golden_cases,
)
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
    golden_cases: bool = True,
    warmup: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as a SavedModel in inference mode, and compare its outputs with the model's.

    The SavedModel has the signature `serving_default`, which runs whole sequences. It can also have
    the signature `step`, which runs one timestep from given states (`keras_norm.export.Step`), and
    the functions in `signatures`.

    Inputs and outputs have names (`keras_norm.export.signature`). Batch, time and every other
    dynamic dimension of the model stay dynamic. The SavedModel runs without Keras, this package,
    XLA, a GPU or a custom op. For this, the exporter writes Keras' recurrent layers as equivalent
    layers of this package (`model.layer_replacement`).

    The folder appears in one step, after the outputs were compared with the Keras model's. A server
    that polls the folder therefore never sees an incomplete model. The exporter skips this
    comparison for a model with text inputs, and logs the reason at the level INFO. It also skips
    the comparison if `samples` is None and the model refuses random inputs: it logs a warning.

    Args:
        model: a functional or a built sequential model.
        path: folder to write. Missing parent folders are created.
        version: an integer of at least 1. The exporter then writes `path/<version>/`, the layout
            that TensorFlow Serving polls. None writes `path`.
        step: whether to write the step signature, which is tested before it is written. None writes
            it if the model runs forward in time, and otherwise logs the reason at the level INFO.
        signatures: more signatures by name. A signature is a function from a dict of the model's
            inputs by name to a dict of tensors, or a `tf.function` with its own `input_signature`.
        samples: real test inputs: arrays (samples, ...) by input name, or an array for a model with
            one input. The exporter runs the SavedModel on up to 3 samples. None: random inputs.
        golden_cases: whether to store golden cases for `keras-norm verify`, in `assets.extra`.
        warmup: whether TensorFlow Serving runs the golden cases when it loads the model, so that
            the first client does not wait.
        overwrite: whether to replace an existing SavedModel. The exporter never replaces a
            `version`, because a server may have loaded it.

    Returns:
        The folder written: `path`, or `path/<version>`.

    Raises:
        FileExistsError: the folder exists and `overwrite` is False; or `overwrite` is True and the
            folder is not a SavedModel, or is a version.
        ImportError: `warmup` is True, and tensorflow-serving-api is not installed.
        OSError: the folder cannot be written: no permission, a full disk.
        VerificationError: the SavedModel's outputs differ from the model's.
        UnsupportedOpError: a layer uses an operation that a server may lack: an XLA op, a
            `jit_compile`d function, a custom op, or an op without a CPU kernel.
        StreamingError: `step` is True, and the model cannot run timestep by timestep.
        ValueError: the model has no fixed inputs, a weight that is NaN, or a stateful layer, whose
            state all requests to a server would share; `version` is not a positive integer; `path`
            ends like a file, or has a character that TensorFlow reads as a pattern; a name in
            `signatures` is reserved; the model does not accept the `samples`; `warmup` is True and
            there are no test inputs; the model or a signature reads a table that no layer holds.

    Example:
    ```python
    export_saved_model(model, "served/digits", version=1)  # served/digits/1/saved_model.pb
    ```
    """
    signature.input_specs(model)
    refuse_unfit(model)
    warn_of_fixed_batch(model)
    if not isinstance(golden_cases, bool):
        raise ValueError(f"golden_cases must be True or False; received {golden_cases!r}")
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
                golden_cases = False
            found = make_golden_cases(reference, stepper)
            if golden_cases:
                write_golden_cases(folder, found)
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
        folder: the folder to write.
        step: the single-step model for the step signature; None writes no step signature.
        signatures: more signatures, as for `export_saved_model`.
        alone: whether to write the step signature without `serving_default`. A dynamic batch is
            then fixed to 1, because microcontrollers support static dimensions only.
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
    # TensorFlow saves these graphs: Keras' export archive would trace four times.
    graphs = {name: function.get_concrete_function() for name, function in traced.items()}
    for name, function in (signatures or {}).items():
        graphs[name] = _graph_of(name, function, specs)
    module = tf.Module()
    module.read = [variable for graph in graphs.values() for variable in graph.variables]
    module.tables = _tables(model)
    try:
        tf.saved_model.save(module, str(folder), signatures=graphs)
    except tf.errors.OpError as error:
        # For example a full disk. TensorFlow's message names the file and the reason.
        raise OSError(f"the SavedModel cannot be written: {one_line(error)}") from error
    except AssertionError as error:
        if "untracked" not in str(error):
            raise
        raise ValueError(
            "the model or one of `signatures` reads a table, or another resource, that no layer of "
            "the model holds, so it cannot be saved: make it an attribute of a layer"
        ) from error


def _require_functions(signatures: Any) -> None:
    """Raise ValueError unless `signatures` is a dict from valid names to functions."""
    if not isinstance(signatures, Mapping):
        kind = type(signatures).__name__
        raise ValueError(f"signatures takes a dict of functions by name; received {kind}")
    for name, function in signatures.items():
        # TensorFlow reserves names that begin with two underscores.
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise ValueError(
                f"signatures takes names that do not begin with two underscores; received {name!r}"
            )
        if not callable(function):
            raise ValueError(f'the signature "{name}" takes a function; received {function!r}')


def _graph_of(name: str, function: Any, specs: Mapping[str, TensorSpec]) -> Any:
    """Trace the user's function for one signature.

    Raises:
        ValueError: the function fails, or does not return a dict of tensors.
    """
    try:
        if getattr(function, "input_signature", None) is None:
            tensors = {n: tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in specs.items()}
            function = tf.function(function, input_signature=[tensors], autograph=False)
        graph = function.get_concrete_function()
    # The user's function may raise any exception.
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
    """Return the specs with the static batch size that a spec has, or with batch 1 if none has."""
    batch = next(filter(None, (spec.shape[0] for spec in specs.values())), 1)
    return {
        name: dataclasses.replace(spec, shape=(batch, *spec.shape[1:]))
        for name, spec in specs.items()
    }


def _tables(model: keras.Model) -> list[Any]:
    """Return the lookup tables in a model's layers, also from nested lists, dicts and modules."""
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
    """Raise FileExistsError unless `target` is a SavedModel without a version number.

    Args:
        target: the existing file or folder to replace.
        version: version of the SavedModel, or None. A folder whose name is a number is a version
            too.
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
