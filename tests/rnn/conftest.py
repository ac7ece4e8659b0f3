"""Run the custom gradient without XLA in these tests, unless a test uses the fixture `xla`."""

import pytest

from keras_norm.rnn.core.tensorflow_programs import CompiledLoop
from tests import without_xla


@pytest.fixture
def xla():
    """Compile the custom gradient with XLA, as users do."""
    assert CompiledLoop.compiles


@pytest.fixture(autouse=True)
def custom_gradient_without_xla(request, monkeypatch):
    """Trace the loops of the custom gradient without XLA, which compiles slowly."""
    if "xla" not in request.fixturenames:
        without_xla.trace(monkeypatch)
