"""A report of a check that passed, and a report of a check that failed."""

import numpy as np
import pytest

from keras_norm.export.results.artifact_result import PropertyResult
from tests.export.report.reports import EXPECTED, artifact, report_of


@pytest.fixture
def passing():
    return report_of(artifact("saved_model", EXPECTED), artifact("model.tflite", EXPECTED + 1e-6))


@pytest.fixture
def failing():
    nan = EXPECTED.copy()
    nan[1, 2, 3] = np.nan
    return report_of(
        artifact("saved_model", EXPECTED + 0.25),
        artifact("a_model_with_quite_a_long_name.tflite", nan),
        artifact("broken.tflite", EXPECTED, outputs=(), error="it went away <b>"),
        artifact(
            "flex.tflite", EXPECTED, properties=(PropertyResult("ops", "fail", "ops: FlexRoll"),)
        ),
    )
