"""Models for the tests of the check."""

import keras
import pytest

from tests.export.checks.faulty_artifacts import sequence_model


@pytest.fixture(scope="module")
def model():
    return sequence_model()


@pytest.fixture(scope="module")
def masked():
    return sequence_model(keras.layers.Masking(-1.0), keras.layers.SimpleRNN(4))
