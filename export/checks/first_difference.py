"""Find the first layer of a Keras model whose output is wrong in an exported file."""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.arrays import largest, to_float64
from keras_norm.export.errors import ConversionError, RunnerError, VerificationError, one_line
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.results.artifact_result import FirstDifference
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.runtimes.worker_runner import TIMEOUT
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Arrays, Tensor, Tensors


def find_first_difference(
    model: keras.Model, path: str, inputs: Arrays, share: float
) -> FirstDifference:
    """Find the first layer of a model whose output equals no tensor of an exported file.

    The search compares every layer's output with every tensor of the file and of a new export of
    the model. A layer is right if its output is in the file at every index that it has in the new
    export. If the two graphs have different numbers of tensors, any tensor of the file suffices.
    All layers before a right layer are right too. Layers whose output is not in the new export are
    skipped: a converter may merge layers.

    Args:
        model: a functional or Sequential model.
        path: a SavedModel directory, a .tflite or .onnx file, or "" for a function.
        inputs: arrays by input name for which the file's outputs are wrong.
        share: the tolerance, as a share of each value and of a layer's largest value.
    """
    if not path:
        return FirstDifference(
            None, "the artifact is a function, and tensors inside a function are not visible"
        )
    try:
        known = _require_format(pathlib.Path(path))
        if known.is_single_step(pathlib.Path(path)):
            reason = (
                "a single-step model computes one timestep in a call, so its tensors cannot be "
                "compared for whole sequences"
            )
            return FirstDifference(None, reason)
        return _search_file(model, known, pathlib.Path(path), inputs, share)
    # Catch every error, because a damaged file or a layer's code may raise any error. The report
    # shows the message of the error.
    except Exception as error:
        return FirstDifference(
            None, f"the tensors of the file cannot be computed: {one_line(error)}"
        )


def _search_file(
    model: keras.Model, known: Format, path: pathlib.Path, inputs: Arrays, share: float
) -> FirstDifference:
    file = _Tensors(_trace(known, path, inputs), share)
    specs = signature.input_specs(model)
    tensors = [tf.constant(inputs[name], specs[name].dtype) for name in specs]
    outputs = keras.tree.flatten(keras.Model(list(model.inputs), model.outputs)(list(tensors)))
    outputs = [output for output in outputs if output.dtype != tf.string]
    fresh, stale, reason = _new_export(model, known, path, inputs, outputs, share)
    layer = _find_first(model, tensors, file, fresh)
    if layer is None:
        return FirstDifference(
            None,
            "no layer had a wrong output when the file ran again and returned every tensor",
        )
    if known.stored_weights is not None:
        others = _layers_with_other_weights(model, known.stored_weights(path))
        if others:
            reason = f"the file does not contain the weights of {_join_names(others)}"
        elif fresh is not None:
            reason += ", and the file contains all weights of the model"
            return FirstDifference(layer, reason, stale=False)
    return FirstDifference(layer, reason, stale)


class _Tensors:
    """All tensors that a file computes, in graph order, to search for a layer's output."""

    def __init__(self, arrays: list[Array], share: float) -> None:
        self.count = len(arrays)
        self.share = share
        self.by_size: dict[int, dict[int, Array]] = {}
        for index, array in enumerate(arrays):
            flat = array.astype(np.float64).ravel()
            self.by_size.setdefault(array.size, {})[index] = flat

    def find(self, output: Tensor) -> set[int]:
        """Return the indices of the tensors that equal a layer's output; shapes may differ."""
        wanted = to_float64(output).ravel()
        allowed = self.share * (largest([wanted]) + np.abs(wanted))
        return {
            index
            for index, tensor in self.by_size.get(wanted.size, {}).items()
            if (np.abs(tensor - wanted) <= allowed).all()
        }


def _find_first(
    model: keras.Model, inputs: Tensors, file: _Tensors, fresh: _Tensors | None
) -> str | None:
    """Return the path of the first layer whose output equals no tensor of the file, or None.

    The search includes the layers of nested models.
    """
    nodes = nodes_in_order(model)
    # Call a model that returns the outputs of all nodes: Keras attaches masks to these outputs,
    # and a nested model needs the masks of its inputs.
    every = keras.Model(list(model.inputs), [list(node.outputs) for node in nodes])
    outputs = every(list(inputs), training=False)
    verdicts = [_has_outputs(values, file, fresh) for values in outputs]
    right: set[int] = set()
    for node, verdict in zip(reversed(nodes), reversed(verdicts), strict=True):
        if verdict or any(id(tensor) in right for tensor in node.outputs):
            right.update(id(tensor) for tensor in (*node.input_tensors, *node.outputs))
    known = dict(zip(map(id, model.inputs), inputs, strict=True))
    for node, values, verdict in zip(nodes, outputs, verdicts, strict=True):
        known.update(zip(map(id, node.outputs), values, strict=True))
        if verdict is not False or id(node.outputs[0]) in right:
            continue
        name = str(node.operation.name)
        if isinstance(node.operation, keras.Model):
            arguments = [known[id(tensor)] for tensor in node.input_tensors]
            inner = _find_first(node.operation, arguments, file, fresh)
            return f"{name}/{inner}" if inner else name
        return name
    return None


def _has_outputs(values: Tensors, file: _Tensors, fresh: _Tensors | None) -> bool | None:
    """Return whether tensors of the file equal all outputs of a layer, or None if unknown."""
    verdicts = []
    for value in values:
        if not _is_distinctive(value):
            return None
        here = file.find(value)
        there = here if fresh is None else fresh.find(value)
        if fresh is not None and not there:
            return None
        alike = fresh is not None and fresh.count == file.count
        verdicts.append(there <= here if alike else bool(here))
    return all(verdicts)


def _is_distinctive(value: Tensor) -> bool:
    """Return whether an array has different floats: zeros, for example, match by chance."""
    if "float" not in keras.backend.standardize_dtype(value.dtype):
        return False
    return bool(np.ptp(to_float64(value)))


def _require_format(path: pathlib.Path) -> Format:
    known = format_of(path)
    if known is None or not known.trace_script:
        raise ValueError("the check cannot compute every tensor of this file format")
    return known


def _trace(known: Format, path: pathlib.Path, inputs: Arrays) -> list[Array]:
    """Return every tensor that a file computes outside loops."""
    script = known.trace_script
    request = {"path": str(path), "signature": SERVING_DEFAULT, "every_tensor": True}
    with WorkerProcess(script, subject=f"tensors of {path}", timeout=TIMEOUT) as worker:
        worker.load(request)
        return list(worker.run(inputs).values())


def _new_export(
    model: keras.Model,
    known: Format,
    path: pathlib.Path,
    inputs: Arrays,
    outputs: Tensors,
    share: float,
) -> tuple[_Tensors | None, bool | None, str]:
    """Export the model again, and compare the outputs of the new file with the Keras model.

    Returns:
        (tensors of the new file, or None if the export failed or the outputs are wrong; whether the
        new file's outputs are right, or None if the export failed; a description of both).
    """
    options = known.export_again(path)
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = known.export(model, pathlib.Path(folder) / known.file_name, **options)
        except (ConversionError, RunnerError, VerificationError, ValueError) as error:
            return None, None, f"the model cannot be exported again: {one_line(error)}"
        fresh = _Tensors(_trace(known, file, inputs), share)
    if not all(fresh.find(output) for output in outputs):
        return None, False, "the outputs of a new export of the model are wrong too"
    return fresh, True, "the outputs of a new export of the model are right"


def _layers_with_other_weights(model: keras.Model, arrays: list[Array]) -> list[str]:
    """Return the paths of the Keras layers with a weight that the exported file does not store.

    Each path names the innermost layer that has the weight.

    Only weights that inference reads are compared. Other weights, such as counts of updates, need
    not be stored.
    """
    read = KerasRunner(model).variables_read
    stored: dict[tuple[int, ...], list[Array]] = {}
    for array in arrays:
        stored.setdefault(array.shape, []).append(array)
    return [
        path
        for path, layer in named_layers(model)
        for weight in _own_weights(layer)
        if id(weight.value) in read
        and not any(
            np.array_equal(keras.ops.convert_to_numpy(weight), array)
            for array in stored.get(tuple(weight.shape), ())
        )
    ]


def _own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the weights that belong to a layer itself and not to its sublayers."""
    inner = {id(weight) for _, child in named_layers(layer) for weight in child.weights}
    return [weight for weight in layer.weights if id(weight) not in inner]


def _join_names(paths: list[str]) -> str:
    paths = list(dict.fromkeys(paths))
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
