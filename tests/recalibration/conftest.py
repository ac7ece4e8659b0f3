"""Fixtures of the tests of recalibration."""

import pytest
import tensorflow as tf


@pytest.fixture
def traced():
    """Trace the model, as users do."""


@pytest.fixture(autouse=True)
def eager(request):
    """Run models eagerly, unless a test uses `traced`: tracing takes most of the time."""
    tf.config.run_functions_eagerly("traced" not in request.fixturenames)
    yield
    tf.config.run_functions_eagerly(False)
