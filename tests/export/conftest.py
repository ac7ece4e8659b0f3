import pytest

from keras_norm.export import export_tflite
from tests.export import models


@pytest.fixture(scope="session")
def step_alone(tmp_path_factory):
    """A model, and a TFLite file of its step alone."""
    model = models.recurrent()
    path = tmp_path_factory.mktemp("step") / "step.tflite"
    return model, export_tflite(model, path, signature="step")
