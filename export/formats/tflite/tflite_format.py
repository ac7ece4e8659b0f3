"""The description of the TFLite format for the registry of formats."""

import dataclasses
import pathlib
from collections.abc import Collection
from typing import Any

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.formats.artifact_format import Format, Ops, Source, in_runtime
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.tflite.export_tflite import export_tflite
from keras_norm.export.formats.tflite.tflite_file import is_tflite, read_tflite
from keras_norm.export.formats.tflite.tflite_runner import MicroRunner, TFLiteRunner
from keras_norm.export.optional_packages import require

# Precision of the stored numbers -> the option `quantize` that writes it.
QUANTIZE = {"float16": "float16", "int8": "dynamic"}


def _sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    require("tflite")
    file = read_tflite(path)
    precision = coarsest(file.numbers)
    found = list(in_runtime(TFLiteRunner, path, name, precision))
    if not file.computes_in_integers:  # OpenVINO had an error of 0.23 (docs/export.md)
        found += in_runtime(OpenVINORunner, path, name, precision, "openvino")
    if file.is_single_step:
        found += in_runtime(MicroRunner, path, name, precision, "micro")
    return tuple(
        dataclasses.replace(source, is_single_step=file.is_single_step) for source in found
    )


def _foreign_ops(path: pathlib.Path, ops: Ops) -> Collection[str]:
    """Return the Flex and custom operations: only names of builtin operations are in capitals."""
    return {op for op in ops if not op.isupper()}


def _export_again(path: pathlib.Path) -> dict[str, Any]:
    file = read_tflite(path)
    if file.computes_in_integers:
        raise ValueError("it computes in 8 bits, with scales of samples that are not known here")
    return {"step": False, "quantize": QUANTIZE.get(coarsest(file.numbers))}


TFLITE = Format(
    name="tflite",
    title="a TFLite file",
    file_name="model.tflite",
    recognizes=is_tflite,
    export=export_tflite,
    open=TFLiteRunner,
    sources=_sources,
    foreign_ops=_foreign_ops,
    signatures=lambda path: read_tflite(path).signatures,
    export_again=_export_again,
    is_single_step=lambda path: read_tflite(path).is_single_step,
    trace_script="tflite/run_tflite.py",
)
