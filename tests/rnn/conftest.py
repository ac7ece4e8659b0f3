"""Which sequence form the tests of this folder run."""

import pytest

from keras_norm.rnn.forms import use_form


@pytest.fixture(autouse=True)
def form(request):
    """The plain form, which the others are held to, unless a module names another in FORM."""
    with use_form(getattr(request.module, "FORM", "plain")):
        yield
