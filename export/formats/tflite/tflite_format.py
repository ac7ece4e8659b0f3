"""Define the `Format` of TFLite files: how they are written, opened and checked."""

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.tflite.constant_differences import compare_with_new_export
from keras_norm.export.formats.tflite.export_tflite import export_tflite
from keras_norm.export.formats.tflite.tflite_file import read_tflite
from keras_norm.export.formats.tflite.tflite_graph import input_ranges
from keras_norm.export.formats.tflite.tflite_runner import (
    TFLiteRunner,
    tflite_options,
    tflite_sources,
)
from keras_norm_verify.runtimes import RUNTIMES

TFLITE = Format(
    name="tflite",
    runtime=RUNTIMES["tflite"],
    file_name="model.tflite",
    export=export_tflite,
    open=TFLiteRunner,
    sources=tflite_sources,
    # The names of builtin operations are in capitals. Any other operation is a Flex or custom
    # operation, which LiteRT alone cannot run.
    foreign_ops=lambda path, ops: {op for op in ops if not op.isupper()},
    signatures=lambda path: read_tflite(path).signatures,
    export_again=tflite_options,
    compare_constants=compare_with_new_export,
    input_ranges=input_ranges,
    trace_script="tflite/run_tflite.py",
)
