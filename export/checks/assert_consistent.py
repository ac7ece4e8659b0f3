"""Export a model and check the exported files in one call, for tests."""

import inspect
import io
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import rich.console

from keras_norm.export.checks.check import check
from keras_norm.export.checks.data_reader import DataLike
from keras_norm.export.formats.format_registry import FORMATS
from keras_norm.export.model.other_backends import runs_on_tensorflow
from keras_norm.export.report.report import Report

WIDTH = 100


@runs_on_tensorflow
def assert_consistent(
    model: keras.Model,
    data: DataLike,
    *,
    formats: Sequence[str] | Mapping[str, Mapping[str, object]] = ("saved_model", "tflite"),
    **options: Any,
) -> Report:
    """Export a model to temporary files and raise AssertionError if a file fails the check.

    With another backend than TensorFlow, a child process runs this function: see the guide
    "Export models trained on JAX or PyTorch".

    Args:
        model: a functional or built Sequential model.
        data: real samples, as for `keras_norm.export.check`.
        formats: names of formats, such as "saved_model", "tflite" and "onnx"; or a dict of options
            for the exporter by name of the format, such as `step`, `quantize` and `samples`.
        **options: options of `keras_norm.export.check`: `rtol`, `atol`, `batch_sizes`, `lengths`,
            `max_gap`, `labels`.

    Returns:
        The report. A quantized file passes within the limit for its precision, although its outputs
        differ from the model's: `report.status` is then "approximate".

    Raises:
        AssertionError: a check failed; the message is the report with its advice.
        ValueError: a format is unknown, the data do not fit the model, or an exporter such as
            `export_saved_model` or `export_tflite` rejects the model or its options.
        TypeError: an exporter or the check does not have one of the options.

    Example:
        >>> def test_exports():
        ...     assert_consistent(model, x_test, formats=["saved_model"], labels=y_test)
        >>> test_exports()
    """
    formats = (
        (formats,) if isinstance(formats, str) or not isinstance(formats, Iterable) else formats
    )
    unknown = set(formats) - set(FORMATS)
    if unknown or not formats:
        raise ValueError(
            f"The argument formats takes {', '.join(FORMATS)}. Received: {tuple(formats)}."
        )
    chosen = formats if isinstance(formats, Mapping) else {name: {} for name in formats}
    for name, export_options in chosen.items():
        if not isinstance(export_options, Mapping) or "path" in export_options:
            raise ValueError(
                f"The argument formats takes a dict of options for {name}. A path is not an "
                "option, because the files are written to a temporary folder. "
                f"Received: {export_options!r}."
            )
    if unknown := set(options) - set(inspect.signature(check).parameters):
        names = ", ".join(sorted(unknown))
        raise TypeError(
            f"assert_consistent passes its options to check. Received options that check does not "
            f"have: {names}. Remove them."
        )
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, export_options in chosen.items():
            known = FORMATS[name]
            path = pathlib.Path(folder, known.file_name)
            files.append(known.export(model, path, **export_options))
        report = check(model, files, data, **options)
    if not report:
        text = io.StringIO()
        report.print(rich.console.Console(file=text, width=WIDTH))
        raise AssertionError(text.getvalue())
    return report
