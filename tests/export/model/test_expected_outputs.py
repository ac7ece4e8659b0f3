"""The test inputs that an exporter runs."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.model.expected_outputs import expected_for_export, long_sequence
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models


def cases_of(model, data=None):
    return expected_for_export(model, data, KerasRunner(model)).cases


def names(cases):
    return [case.name for case in cases]


@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_masked_input_gets_every_kind_of_padding(length):
    inputs = keras.Input((length, 3), name="x")
    x = keras_norm.LayerNormSimpleRNN(2)(keras.layers.Masking(mask_value=7.0)(inputs))
    plain, padded = {}, {}
    for case in cases_of(keras.Model(inputs, x)):
        masked = (case.inputs["x"] == 7.0).all(axis=-1)
        (padded if case.masked else plain)[case.name.partition(", ")[2]] = masked
    assert not any(masked.any() for masked in plain.values())
    assert all(masked.any() for masked in padded.values())
    if length == 6:
        assert padded["padded right"][-1, -1]
        assert padded["padded left"][-1, 0]
        assert padded["row 0 masked"][0].all()


def convolution(kernel, shape=(None, 3), strides=1, **options):
    return models.of(keras.layers.Conv1D(2, kernel, strides=strides), shape, **options)


@pytest.mark.parametrize(
    ("model", "data", "expected"),
    [
        (models.recurrent, None, ["batch 1, length 4", "batch 3, length 7"]),
        (lambda: convolution(2, (5, 3), batch_size=4), None, ["batch 4", "batch 4"]),
        (lambda: convolution(12), None, ["batch 1, length 13", "batch 3, length 25"]),
        (
            lambda: convolution(1024, (None, 1), strides=256),
            None,
            ["batch 1, length 1500", "batch 3, length 3000"],
        ),
        (
            lambda: convolution(8),
            np.ones((4, 10, 3), "float32"),
            ["batch 1, length 10", "batch 3, length 10"],
        ),
    ],
    ids=["two lengths", "static batch", "long enough", "signal", "half is too short"],
)
def test_the_sizes_of_the_test_inputs(model, data, expected):
    assert names(cases_of(model(), data)) == expected


def test_test_inputs_come_with_the_outputs_of_the_model():
    model = models.tagger()
    run = KerasRunner(model)
    for case in cases_of(model):
        models.assert_same(run(case.inputs), case.outputs, atol=0)


def test_real_samples_replace_random_inputs():
    x = np.random.default_rng(0).normal(size=(2, 10, 3)).astype("float32")
    one, three = cases_of(models.recurrent(), x)
    assert names([one, three]) == ["batch 1, length 5", "batch 3, length 10"]
    np.testing.assert_array_equal(one.inputs["x"], x[:1, :5])
    np.testing.assert_array_equal(three.inputs["x"], x[[0, 1, 0]])


def test_inputs_of_an_embedding_are_ids():
    model = models.of(keras.layers.Embedding(5, 2), (None,), name="ids")
    for case in cases_of(model):
        assert set(np.unique(case.inputs["ids"])) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert case.inputs["ids"].max() == 4.0


def test_texts_are_long_enough_for_a_convolution():
    inputs = keras.Input((), dtype="string", name="text")
    ids = keras.layers.TextVectorization(vocabulary=["a", "b"])(inputs)
    x = keras.layers.Conv1D(2, 20)(keras.layers.Embedding(4, 3)(ids))
    (case, *_) = cases_of(keras.Model(inputs, x))
    assert len(case.inputs["text"][0].split()) == 25


def test_padded_inputs_with_nan_outputs_are_left_out():
    """The mean over a fully masked row is NaN."""
    inputs = keras.Input((None, 3), name="x")
    masked = keras.layers.Masking()(inputs)
    found = cases_of(keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(masked)))
    assert "batch 3, length 7, padded right" in names(found)
    assert "batch 3, length 7, row 0 masked" not in names(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"no finite outputs for random inputs .*, 90, 300\): .*\. Give real data: samples="),
        (np.ones((2, 20, 3), "float32"), "the model cannot run the samples: "),
        (np.ones((2, 20, 4), "float32"), r"takes arrays of shape"),
    ],
)
def test_inputs_that_the_model_cannot_run_raise(data, message):
    with pytest.raises(ValueError, match=message):
        cases_of(convolution(1000), data)


def pointwise(function):
    inputs = keras.Input((None, 2), name="x")
    return keras.Model(inputs, {"y": function(inputs)})


def log_of_steps(x):
    return keras.ops.log(x[:, 1:] - x[:, :-1])


@pytest.mark.parametrize(
    "function",
    [
        keras.ops.log,
        lambda x: keras.ops.log(x) + keras.ops.log(1.0 - x),
        lambda x: keras.ops.sqrt(x - 1.0),
        lambda x: keras.ops.log(-x),
        log_of_steps,
    ],
    ids=["log x", "log x + log(1 - x)", "sqrt(x - 1)", "log -x", "log of differences"],
)
def test_random_inputs_are_chosen_for_finite_outputs(function):
    for case in cases_of(pointwise(function)):
        assert np.isfinite(case.outputs["y"]).all()


def test_normal_numbers_are_used_if_the_outputs_are_finite():
    for case in cases_of(pointwise(keras.ops.exp)):
        assert case.inputs["x"].min() < 0 < case.inputs["x"].max()


def test_random_inputs_are_chosen_for_varying_outputs():
    """A rectifier with a threshold above every normal number."""
    _, case = cases_of(pointwise(lambda x: keras.ops.relu(x - 9.0)))
    assert np.ptp(case.outputs["y"], axis=0).all()


def test_integers_before_a_logarithm_are_not_zero():
    inputs = keras.Input((5,), dtype="int32", name="x")
    logarithms = keras.ops.log(keras.ops.cast(inputs, "float32"))
    for case in cases_of(keras.Model(inputs, logarithms)):
        assert case.inputs["x"].min() > 0


def test_an_output_may_have_a_unit_that_is_always_nan():
    def with_nan(x):
        return keras.ops.concatenate([x, keras.ops.log(-keras.ops.square(x) - 1.0)], axis=-1)

    _, case = cases_of(pointwise(with_nan))
    np.testing.assert_array_equal(np.isnan(case.outputs["y"]).mean(axis=(0, 1)), [0, 0, 1, 1])
    assert case.inputs["x"].min() < 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"'y' is NaN or infinite everywhere\. Give real data: samples="),
        (np.ones((4, 6, 2), "float32"), "for the samples, .* Give samples for which"),
    ],
    ids=["random", "real"],
)
def test_an_output_without_a_finite_value_raises(data, message):
    with pytest.raises(ValueError, match=message):
        cases_of(pointwise(lambda x: keras.ops.log(-keras.ops.square(x) - 1.0)), data)


def test_the_long_sequence_has_finite_outputs():
    model = pointwise(keras.ops.log)
    (case,) = long_sequence(model, KerasRunner(model)).cases
    assert case.length == 300
    assert np.isfinite(case.outputs["y"]).all()


def test_complex_inputs_need_samples():
    model = models.of(keras.ops.real, (3,), name="spectrum", dtype="complex64")
    with pytest.raises(
        ValueError, match=r'"spectrum" takes complex64, but .*\. Give real data: sam'
    ):
        cases_of(model)
