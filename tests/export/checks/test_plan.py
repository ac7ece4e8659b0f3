import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export.checks.check import expected_on_data
from keras_norm.export.checks.data_measurements import DataMeasurements
from keras_norm.export.checks.plan import Plan
from keras_norm.export.compare.quantization_tolerance import spreads
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.compare.tolerance import TOLERANCES
from keras_norm.export.signature import input_specs
from tests.export import models

DATA = np.random.default_rng(0).normal(size=(40, 6, 3)).astype("float32")


def plan_of(*layers, **options):
    keras.utils.set_random_seed(0)
    y = keras.layers.Dense(2, name="y")
    model = models.stack(*layers, y)
    return model, Plan(model, read_samples(input_specs(model), DATA), **options)


@pytest.fixture(scope="module")
def masked():
    return plan_of(keras.layers.Masking(-1.0), keras.layers.SimpleRNN(4), lengths=[100])


def test_an_input_that_is_masked_after_another_layer_gives_a_note():
    layers = keras.layers.Rescaling(2.0), keras.layers.Masking(name="masking")
    _, plan = plan_of(*layers, lengths=[6])
    assert not any(case.masked for case in plan.expected.cases)
    (note,) = plan.expected.notes
    assert note == (
        "input 'x' has no masked timesteps in any test input, because other layers change 'x' "
        "before layer 'masking' masks it"
    )


def test_the_share_follows_layers_and_the_longest_case_or_sample(masked):
    _, plan = masked
    assert (plan.expected.layers, plan.expected.timesteps) == (2, 100)
    for timesteps, times in ((0, 2), (400, 4)):
        found = spreads({"y": DATA[:, 0]})
        measured = DataMeasurements(timesteps=timesteps, spreads=found)
        expected = expected_on_data(plan.expected, measured, None, None)
        assert expected.spreads == found
        assert expected.share("float32") == pytest.approx(times * TOLERANCES["float32"])


def test_a_row_with_infinite_outputs_is_left_out_with_a_note():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, keras.ops.log(keras.ops.abs(x)))
    plan = Plan(model, read_samples(input_specs(model), DATA))
    assert [case.name.partition("row 0 ")[2] for case in plan.expected.edges] == [
        "constant",
        "smallest values",
        "largest values",
    ]
    reason = "left out, because the Keras model cannot run them, or its outputs are NaN or infinite"
    note = f"batch 2, length 6, row 0 zeros: {reason}"
    assert note in plan.expected.notes


def test_extreme_rows_do_not_change_the_scale():
    x = keras.Input((3,), name="x")
    model = keras.Model(x, {"y": keras.ops.prod(x, axis=-1)})
    data = np.concatenate([np.eye(3), 9.0 * np.eye(3)]).astype("float32") + 1.0
    plan = Plan(model, read_samples(input_specs(model), data))
    assert plan.expected.edges[-1].outputs["y"].max() == 1000.0
    assert plan.expected.scales == {"y": 10.0}


def test_a_model_with_a_static_batch_streams_in_its_batch_size(monkeypatch):
    monkeypatch.setattr("keras_norm.export.checks.plan.TIMESTEPS", 1000)
    inputs = keras.Input(batch_shape=(4, None, 3), name="x")
    hidden = keras_norm.LayerNormSimpleRNN(2, return_sequences=True, name="y")(inputs)
    model = keras.Model(inputs, hidden)
    stream = Plan(model, read_samples(input_specs(model), DATA)).stream(one_by_one=True)
    assert stream.timesteps == 1008  # 42 batches of 4 sequences of 6 timesteps
    rows = stream.inputs["x"][-4:]
    np.testing.assert_allclose(stream.expected["y"][-4:], model(rows), rtol=1e-5, atol=1e-6)


class Convolved(keras.layers.Conv1D):
    """Returns short inputs unchanged, as convolutions do on some processors."""

    def call(self, inputs):
        convolve = super().call
        y = tf.cond(tf.shape(inputs)[1] < 2, lambda: inputs, lambda: convolve(inputs))
        y.set_shape((None, None, 4))  # as a convolution's
        return y


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([keras.layers.ZeroPadding1D(), keras.layers.Cropping1D(2)], "is empty"),
        ([keras.layers.Cropping1D(1), keras.layers.GlobalAveragePooling1D()], "has NaN"),
        ([keras.layers.Cropping1D(1), keras.layers.GlobalMaxPooling1D()], "infinite everywhere"),
        # The reason depends on the processor: a wrong shape, or the maximum of no values.
        ([keras.layers.Conv1D(4, 2), keras.layers.GlobalMaxPooling1D()], ""),
        ([Convolved(4, 2), keras.layers.GlobalMaxPooling1D()], "returns the shape (1, 3) for"),
    ],
    ids=["nothing", "NaN", "maximum of nothing", "shorter than a kernel", "another shape"],
)
def test_lengths_without_usable_outputs_are_left_out_with_a_note(layers, why):
    model = models.stack(*layers)
    expected = Plan(model, read_samples(input_specs(model), DATA)).expected
    assert {case.length for case in expected.cases} == {3, 6, 9}
    assert expected.notes[0].startswith("batch 1, length 1 was left out: ")
    assert why in expected.notes[0]
