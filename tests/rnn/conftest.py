"""How the gradient by hand runs in the tests of this folder."""

import pytest

from tests import without_xla


@pytest.fixture
def xla():
    """For tests of the programs as users have them."""


@pytest.fixture(autouse=True)
def loops(request):
    """The two loops run without XLA, but for tests that ask for `xla`."""
    if "xla" in request.fixturenames:
        yield
    else:
        with without_xla.traced():
            yield
