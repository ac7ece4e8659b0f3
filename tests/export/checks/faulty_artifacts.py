"""Models for the tests of the check, and artifacts with wrong outputs."""

import keras
import numpy as np

from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

DATA = np.random.default_rng(0).normal(size=(9, 6, 3)).astype("float32")


def sequence_model(*layers):
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense(2, name="y")
    return models.stack(*layers, dense)


def faulty(model, fault):
    """Make a runner that returns fault(inputs, outputs) for the outputs of the model."""
    run = KerasRunner(model)

    def faulty_run(inputs):
        return fault(inputs, run(inputs))

    return faulty_run


def failed(report):
    return {(failure.subject, failure.check) for failure in report.failures}
