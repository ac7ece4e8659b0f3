"""How the gradient by hand runs in the tests of this folder."""

import pytest

from keras_norm.rnn.gradient import programs, recurrence
from tests import without_xla


@pytest.fixture
def xla():
    """For tests of the programs as users have them."""
    assert recurrence.compiled is programs.compiled


@pytest.fixture(autouse=True)
def loops(request, monkeypatch):
    """The two loops run without XLA, but for tests that ask for `xla`."""
    if "xla" not in request.fixturenames:
        without_xla.trace(monkeypatch)
