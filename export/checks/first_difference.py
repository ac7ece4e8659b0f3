"""The first layer of a Keras model whose output an exported file no longer computes."""

import pathlib
import tempfile
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.element_differences import largest
from keras_norm.export.compare.input_cases import Case
from keras_norm.export.errors import ConversionError, RunnerError, VerificationError, one_line
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.registry import format_of
from keras_norm.export.formats.tflite.tflite_file import is_tflite, read_tflite
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.rounding import MAGNIFIED, rounding
from keras_norm.export.results.artifact_result import FirstDifference
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.runtimes.worker_runner import TIMEOUT
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import named_layers


def explained_by_rounding(
    model: Any, case: Case, expected: Arrays, comparisons: Iterable[OutputComparison]
) -> FirstDifference | None:
    """Whether rounding alone takes the Keras model as far as the artefact is from it.

    Args:
        model: a functional or Sequential model.
        case: the inputs.
        expected: what the model gives for them.
        comparisons: of each output of the artefact with that.

    Returns:
        What was seen where rounding explains every difference; else None.
    """
    floor = rounding(model, case.inputs, expected)
    failed = [c for c in comparisons if not c]
    limits = ((c.max_abs, MAGNIFIED * floor.get(c.output, 0.0)) for c in failed)
    if not all(off is not None and 0 < off <= limit for off, limit in limits):  # a NaN is not
        return None
    worst = max(failed, key=lambda c: c.max_abs or 0.0)
    reason = (
        f"at {case.name}, output {worst.output!r} differs by {worst.max_abs:.2g}, and rounding "
        f"alone takes the Keras model {floor[worst.output]:.2g} away from what it gives in float64"
    )
    return FirstDifference(None, reason, stale=False, is_rounding=True)


def first_difference(model: Any, path: str, inputs: Arrays, share: float) -> FirstDifference:
    """Compare every layer's output with every tensor that the file computes.

    A layer is right when the file has its output at all the places where a new export of the model
    has it (at any, where the graphs of the two are not alike), and so is all that a right layer is
    computed from. Layers whose output the new export does not show are passed over: a converter
    merges layers.

    Args:
        model: a functional or Sequential model.
        path: a SavedModel's folder, a .tflite or .onnx file, or "" for a function.
        inputs: arrays by input name, for which the file's outputs are wrong.
        share: how far values may differ, as a share of a layer's largest.
    """
    if not path:
        return FirstDifference(None, "a function shows nothing of what it computes within")
    try:
        if is_tflite(path) and read_tflite(path).is_step_alone:
            return FirstDifference(
                None, "a file of the step alone has no tensor of whole sequences"
            )
        return _found(model, pathlib.Path(path), inputs, share)
    # Whatever a damaged file or a layer makes of this, what it failed on is in the report.
    except Exception as error:
        return FirstDifference(None, f"the file's tensors cannot be seen: {one_line(error)}")


def _found(model: Any, path: pathlib.Path, inputs: Arrays, share: float) -> FirstDifference:
    file = _Tensors(_trace(path, inputs), share)
    specs = signature.input_specs(model)
    given = [tf.constant(inputs[name], specs[name].dtype) for name in specs]
    outputs = keras.tree.flatten(keras.Model(list(model.inputs), model.outputs)(list(given)))
    fresh, stale, reason = _new_export(model, path, inputs, outputs, share)
    layer = _first(model, given, file, fresh)
    if layer is None:
        return FirstDifference(None, "every layer's output is right where all tensors can be seen")
    others = _layers_with_other_weights(model, path) if path.is_dir() else []
    if others:
        reason = f"the file does not hold the weights of {_listed(others)}"
    elif path.is_dir() and fresh is not None:
        return FirstDifference(layer, f"{reason}, and the file holds all its weights", stale=False)
    return FirstDifference(layer, reason, stale)


class _Tensors:
    """What a file computes on its way, in its order, to be asked for a layer's output."""

    def __init__(self, arrays: list[np.ndarray], share: float) -> None:
        self.count = len(arrays)
        self.share = share
        self.by_size: dict[int, dict[int, np.ndarray]] = {}
        for place, array in enumerate(arrays):
            flat = array.astype(np.float64).ravel()
            self.by_size.setdefault(array.size, {})[place] = flat

    def places(self, output: Any) -> set[int]:
        """Where a layer's output is, in whatever shape."""
        wanted = keras.ops.convert_to_numpy(output).astype(np.float64).ravel()
        allowed = self.share * (largest([wanted]) + np.abs(wanted))
        return {
            place
            for place, tensor in self.by_size.get(wanted.size, {}).items()
            if (np.abs(tensor - wanted) <= allowed).all()
        }


def _first(model: Any, inputs: list[Any], file: _Tensors, fresh: _Tensors | None) -> str | None:
    """Path of the first layer whose output is not in the file, in nested models too."""
    nodes = nodes_in_order(model)
    # The tensors keep their masks, which a nested model needs.
    every = keras.Model(list(model.inputs), [list(node.outputs) for node in nodes])
    outputs = every(list(inputs), training=False)
    verdicts = [_verdict(values, file, fresh) for values in outputs]
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
            given = [known[id(tensor)] for tensor in node.input_tensors]
            inner = _first(node.operation, given, file, fresh)
            return f"{name}/{inner}" if inner else name
        return name
    return None


def _verdict(values: list[Any], file: _Tensors, fresh: _Tensors | None) -> bool | None:
    """Whether the file has a layer's outputs; None where that cannot be told."""
    verdicts = []
    for value in values:
        here = file.places(value)
        there = here if fresh is None else fresh.places(value)
        if not _is_telling(value) or (fresh is not None and not there):
            return None
        alike = fresh is not None and fresh.count == file.count
        verdicts.append(there <= here if alike else bool(here))
    return all(verdicts)


def _is_telling(value: Any) -> bool:
    """Whether values are numbers that are found by chance nowhere else."""
    if "float" not in keras.backend.standardize_dtype(value.dtype):
        return False
    return bool(np.ptp(keras.ops.convert_to_numpy(value).astype(np.float64)))


def _format(path: pathlib.Path) -> Format:
    known = format_of(path)
    if known is None or not known.trace_script:
        raise ValueError("its format has no script that computes every tensor")
    return known


def _trace(path: pathlib.Path, inputs: Arrays) -> list[np.ndarray]:
    """Every tensor that a file computes, outside its loops."""
    script = _format(path).trace_script
    request = {"path": str(path), "signature": SERVING_DEFAULT, "every_tensor": True}
    with WorkerProcess(script, subject=f"tensors of {path}", timeout=TIMEOUT) as worker:
        worker.load(request)
        return list(worker.run(inputs).values())


def _new_export(
    model: Any, path: pathlib.Path, inputs: Arrays, outputs: list[Any], share: float
) -> tuple[_Tensors | None, bool | None, str]:
    """What a new file of the same kind computes, where it is right; whether it is; and in words."""
    known = _format(path)
    options = known.export_again(path)
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = known.export(model, pathlib.Path(folder) / known.file_name, **options)
        except (ConversionError, RunnerError, VerificationError, ValueError) as error:
            return None, None, f"the model cannot be exported again: {one_line(error)}"
        fresh = _Tensors(_trace(file, inputs), share)
    if not all(fresh.places(output) for output in outputs):
        return None, False, "a new export of the model is wrong too"
    return fresh, True, "a new export of the model is right"


def _layers_with_other_weights(model: Any, folder: pathlib.Path) -> list[str]:
    """Paths of the innermost layers with a weight whose values a SavedModel nowhere holds.

    It holds those that inference reads, and counts of updates, say, are not among them.
    """
    read = KerasRunner(model).variables_read
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    stored: dict[tuple[int, ...], list[np.ndarray]] = {}
    for name, shape in reader.get_variable_to_shape_map().items():
        if not name.startswith("_CHECKPOINTABLE"):
            stored.setdefault(tuple(shape), []).append(reader.get_tensor(name))
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


def _own_weights(layer: Any) -> list[Any]:
    """The weights of a layer that none of the layers inside it has."""
    inner = {id(weight) for _, child in named_layers(layer) for weight in child.weights}
    return [weight for weight in layer.weights if id(weight) not in inner]


def _listed(paths: list[str]) -> str:
    paths = list(dict.fromkeys(paths))
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
