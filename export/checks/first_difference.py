"""Find why an exported file has wrong outputs: rounding, or the first layer that differs."""

import dataclasses
import functools
import math
import pathlib
import tempfile
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.arrays import is_text, largest, to_float64
from keras_norm.export.compare.samples import Case
from keras_norm.export.errors import ConversionError, RunnerError, VerificationError, one_line
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.model.first_layer import find_first_layer
from keras_norm.export.model.judge import Judge
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.results.artifact_result import ArtifactResult, FirstDifference
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.runtimes.worker_runner import TIMEOUT
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Arrays


def explain_differences(
    results: Sequence[ArtifactResult], judge: Judge, worst_batches: Mapping[str, Case | None]
) -> tuple[ArtifactResult, ...]:
    """Find why each exported file has wrong outputs: rounding, or the first layer that differs.

    The smallest test input with a wrong output is explained; the worst batch of the data only if
    all test inputs are right. If a file fails in two runtimes, both have one explanation.

    Args:
        results: the results of the artifacts, to return with `first_difference`.
        judge: the Keras model, with the test inputs and its rounding errors.
        worst_batches: the batch of the data with the largest difference, by name of the artifact.
    """
    cases = {case.name: case for case in judge.expected.all_cases}
    sizes = {n: sum(array.size for array in case.inputs.values()) for n, case in cases.items()}
    known: dict[str, FirstDifference] = {}
    explained = []
    for result in results:
        if wrong := _wrong_outputs(result):
            name = min(wrong, key=lambda name: sizes.get(name, math.inf))
            key = result.path or result.name
            if key not in known:
                case = cases.get(name) or worst_batches[result.name]
                assert case is not None
                if reason := judge.rounding.explain(case, wrong[name]):
                    known[key] = FirstDifference(None, reason, stale=False, is_rounding=True)
                else:
                    share = max(result.share, result.rtol)
                    known[key] = find_first_difference(judge.model, result.path, case.inputs, share)
            result = dataclasses.replace(result, first_difference=known[key])
        explained.append(result)
    return tuple(explained)


def find_first_difference(
    model: keras.Model, path: str, inputs: Arrays, share: float
) -> FirstDifference:
    """Find the first layer of a model whose output equals no tensor of an exported file.

    The search compares every layer's output with every tensor of the file and of a new export of
    the model. A layer is right if its output is in the file at every index that it has in the new
    export; at any index if the two graphs have different numbers of tensors. All layers before a
    right layer are right too. Layers whose output is not in the new export are skipped: a converter
    may merge layers.

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
        known = format_of(pathlib.Path(path))
        if known is None or not known.trace_script:
            raise ValueError("the check cannot compute every tensor of this file format")
        if [*known.signatures(pathlib.Path(path))] == [STEP]:
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


def _wrong_outputs(result: ArtifactResult) -> dict[str, list[OutputComparison]]:
    """Return the failed comparisons by the name of the test inputs.

    Test inputs without any measured difference, for example because shapes differ, are left out.
    """
    failed: dict[str, list[OutputComparison]] = {}
    for name, comparison in result.comparisons:
        if not comparison:
            failed.setdefault(name, []).append(comparison)
    return {n: own for n, own in failed.items() if any(c.max_abs is not None for c in own)}


def _search_file(
    model: keras.Model, known: Format, path: pathlib.Path, inputs: Arrays, share: float
) -> FirstDifference:
    file = _Tensors(known, path, inputs, share)
    fresh, stale, options = None, None, known.export_again(path)
    with tempfile.TemporaryDirectory() as folder:
        try:
            new = known.export(model, pathlib.Path(folder) / known.file_name, **options)
        except (ConversionError, RunnerError, VerificationError, ValueError) as error:
            reason = f"the model cannot be exported again: {one_line(error)}"
        else:
            fresh = _Tensors(known, new, inputs, share)
            outputs = KerasRunner(model)(inputs).values()
            stale = all(fresh.find(y) for y in outputs if not is_text(y))
            reason = "if the model is exported again, the outputs of the new file are wrong too"
            if stale:
                reason = "if the model is exported again, the outputs of the new file are right"
    found = functools.partial(file.contain, fresh=fresh if stale else None)
    specs = signature.input_specs(model)
    tensors = [tf.constant(inputs[name], spec.dtype) for name, spec in specs.items()]
    layer = find_first_layer(model, tensors, lambda _, outputs: found(outputs))
    if layer is None:
        return FirstDifference(
            None,
            "the file ran again to compare the outputs of layers, and no layer had a wrong output",
        )
    if known.stored_weights is not None:
        layers = _layers_with_other_weights(model, known.stored_weights(path))
        if layers:
            more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
            reason = f"the file does not contain the weights of {', '.join(layers[:3])}{more}"
        elif stale:
            reason += ", and the checked file contains all weights of the model"
            stale = False
    return FirstDifference(layer, reason, stale)


class _Tensors:
    """The values of all tensors that an exported file computes, except tensors inside loops."""

    def __init__(self, known: Format, path: pathlib.Path, inputs: Arrays, share: float) -> None:
        request = {"path": str(path), "signature": SERVING_DEFAULT, "every_tensor": True}
        subject = f"tensors of {path}"
        with WorkerProcess(known.trace_script, subject=subject, timeout=TIMEOUT) as worker:
            worker.load(request)
            tensors = worker.run(inputs).values()
        self.arrays = [to_float64(tensor).ravel() for tensor in tensors]
        self.share = share

    def find(self, output: Array) -> set[int]:
        """Return the indices of the tensors that equal a layer's output; shapes may differ."""
        wanted = to_float64(output).ravel()
        allowed = self.share * (largest([wanted]) + np.abs(wanted))
        return {
            index
            for index, tensor in enumerate(self.arrays)
            if tensor.size == wanted.size and (np.abs(tensor - wanted) <= allowed).all()
        }

    def contain(self, outputs: Sequence[Array], fresh: "_Tensors | None") -> bool | None:
        """Return whether the file has all outputs of a layer; None if this is unknown.

        `fresh` has the tensors of a new export whose outputs are right. The result is None if
        `fresh` lacks an output of the layer. If both files have equally many tensors, `fresh` shows
        at which indices an output must be.
        """
        verdicts = []
        for output in outputs:
            here, there = self.find(output), None if fresh is None else fresh.find(output)
            if there is not None and not there:
                return None
            alike = fresh is not None and len(fresh.arrays) == len(self.arrays)
            verdicts.append(there <= here if there and alike else bool(here))
        return all(verdicts)


def _layers_with_other_weights(model: keras.Model, arrays: Sequence[Array]) -> list[str]:
    """Return the paths of the layers with weights that are not in the exported file.

    Only weights that inference reads are compared. Other weights, such as counts of updates, need
    not be stored.
    """
    read = KerasRunner(model).variables_read
    found = []
    for path, layer in named_layers(model):
        inner = {id(weight) for _, child in named_layers(layer) for weight in child.weights}
        own = [w for w in layer.weights if id(w.value) in read and id(w) not in inner]
        values = [keras.ops.convert_to_numpy(weight) for weight in own]
        if not all(any(np.array_equal(v, array) for array in arrays) for v in values):
            found.append(path)
    return found
