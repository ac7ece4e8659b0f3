"""Models for the tests of the check, and artifacts with wrong outputs."""

import keras
import numpy as np

from keras_norm.export.model.keras_runner import KerasRunner

DATA = np.random.default_rng(0).normal(size=(9, 6, 3)).astype("float32")


@keras.saving.register_keras_serializable(package="tests")
class Counts(keras.layers.Layer):
    """Adds one to a weight in every call, also at inference."""

    def build(self, input_shape):
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x


def sequence_model(*layers):
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense(2, name="y")
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers, dense])


def faulty(model, fault):
    """Make a runner that returns fault(inputs, outputs) for the outputs of the model."""
    run = KerasRunner(model)

    def faulty_run(inputs):
        return fault(inputs, run(inputs))

    return faulty_run


def failed(report):
    return {(failure.subject, failure.check) for failure in report.failures}
