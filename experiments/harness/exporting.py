"""Every example ends here: its best model is exported to both formats, and both are checked."""

import pathlib
import shutil
from typing import Any

import keras
import numpy as np

from keras_norm.export import Report, check, export_saved_model, export_tflite


def export_and_check(
    model: keras.Model, samples: Any, folder: pathlib.Path, labels: np.ndarray | None = None
) -> Report:
    """Write a model as SavedModel and TFLite, check both, and write the page of the report.

    Args:
        model: trained.
        samples: inputs to check with, as `check` takes them.
        folder: gets `saved_model/1`, `model.tflite` and `report.html`; what an earlier run left
            there goes.
        labels: of the samples.
    """
    shutil.rmtree(folder, ignore_errors=True)
    saved_model = export_saved_model(model, folder / "saved_model", version=1)
    tflite = export_tflite(model, folder / "model.tflite")
    report = check(model, [saved_model, tflite], samples, labels=labels)
    report.to_html(folder / "report.html")
    return report


def worst_difference(report: Report) -> float | None:
    """The largest difference of any output of any file from the model's; None if none ran."""
    found = [o.max_abs for a in report.artifacts for o in a.outputs if o.max_abs is not None]
    return max(found, default=None)


def checked(
    model: keras.Model, samples: Any, folder: pathlib.Path, labels: np.ndarray | None = None
) -> dict[str, Any]:
    """Export and check a model, print the report, and give what a result file keeps of it."""
    report = export_and_check(model, samples, folder, labels)
    report.print()
    return {
        "passed": bool(report),
        "worst_difference": worst_difference(report),
        "train_inference_gap": report.gap.worst,
    }
