"""A check of both exports in one call, for tests."""

import io
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import rich.console

from keras_norm.export.check import check
from keras_norm.export.report import Report
from keras_norm.export.saved_model import export_saved_model
from keras_norm.export.tflite import export_tflite

FORMATS: dict[str, Callable[[Any, pathlib.Path], pathlib.Path]] = {
    "saved_model": lambda model, folder: export_saved_model(model, folder / "saved_model"),
    "tflite": lambda model, folder: export_tflite(model, folder / "model.tflite"),
}
WIDTH = 100


def assert_consistent(
    model: Any, data: Any, *, formats: Sequence[str] = tuple(FORMATS), **options: Any
) -> Report:
    """Export a model to a temporary folder and fail unless every file computes the same.

    Args:
        model: a functional or built Sequential model.
        data: real samples: arrays (samples, ...) by input name, or one array for one input.
        formats: which of "saved_model" and "tflite".
        **options: of `keras_norm.export.check`: `rtol`, `atol`, `batch_sizes`, `lengths`,
            `max_gap`, `labels`.

    Returns:
        The report.

    Raises:
        AssertionError: a check failed; the message is the report, with what to do.
        ValueError: an unknown format, or data that do not fit; and what `export_saved_model` and
            `export_tflite` raise for a model that they refuse.

    Example:
    ```python
    def test_exports():
        assert_consistent(build_model(), x_test, labels=y_test)
    ```
    """
    unknown = set(formats) - set(FORMATS)
    if unknown or not formats:
        raise ValueError(f"formats takes {', '.join(FORMATS)}. Received: {tuple(formats)}.")
    with tempfile.TemporaryDirectory() as folder:
        files = [FORMATS[name](model, pathlib.Path(folder)) for name in formats]
        report = check(model, files, data, **options)
    if not report:
        text = io.StringIO()
        report.print(rich.console.Console(file=text, width=WIDTH))
        raise AssertionError(text.getvalue())
    return report
