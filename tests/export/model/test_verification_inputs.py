"""What a file is run on before it is written."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.errors import TextError
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.verification_inputs import long_case, verification_cases
from tests.export import models


def names(cases):
    return [case.name for case, _ in cases]


@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_masked_input_is_padded_in_every_way(length):
    inputs = keras.Input((length, 3), name="x")
    x = keras_norm.LayerNormGRU(2)(keras.layers.Masking(mask_value=7.0)(inputs))
    plain, padded = {}, {}
    for case, _ in verification_cases(keras.Model(inputs, x)):
        masked = (case.inputs["x"] == 7.0).all(axis=-1)
        (padded if case.masked else plain)[case.name.partition(", ")[2]] = masked
    assert not any(masked.any() for masked in plain.values())
    assert all(masked.any() for masked in padded.values())
    if length == 6:
        assert padded["padded right"][-1, -1]
        assert padded["padded left"][-1, 0]
        assert padded["row 0 masked"][0].all()


def test_open_sizes_differ_between_the_cases_and_nothing_is_padded_without_a_mask():
    model = models.recurrent()
    assert names(verification_cases(model)) == ["batch 1, length 4", "batch 3, length 7"]


def test_what_the_model_gives_goes_along():
    model = models.tagger()
    run = KerasRunner(model)
    for case, answer in verification_cases(model):
        models.assert_same(run(case.inputs), answer, atol=0)


def test_real_samples_take_the_place_of_random_ones():
    x = np.random.default_rng(0).normal(size=(2, 10, 3)).astype("float32")
    one, three = verification_cases(models.recurrent(), x)
    assert names([one, three]) == ["batch 1, length 5", "batch 3, length 10"]
    np.testing.assert_array_equal(one[0].inputs["x"], x[:1, :5])
    np.testing.assert_array_equal(three[0].inputs["x"], x[[0, 1, 0]])


def test_numbers_that_an_embedding_looks_up_are_ids():
    inputs = keras.Input((None,), name="ids")  # of float32, as Keras has it where nobody says
    model = keras.Model(inputs, keras.layers.Embedding(5, 2)(inputs))
    for case, _ in verification_cases(model):
        assert set(np.unique(case.inputs["ids"])) <= {0.0, 1.0, 2.0, 3.0, 4.0}
        assert case.inputs["ids"].max() == 4.0


def test_an_output_that_is_text_is_named():
    inputs = keras.Input((3,), name="x")
    names = keras.layers.StringLookup(vocabulary=["a", "b"], invert=True, name="label")
    model = keras.Model(inputs, {"label": names(keras.ops.argmax(inputs, axis=-1))})
    with pytest.raises(TextError, match='output "label" is text'):
        verification_cases(model)


def test_an_input_that_is_text_is_named():
    inputs = keras.Input((), dtype="string", name="word")
    model = keras.Model(inputs, keras.layers.StringLookup(vocabulary=["a", "b"])(inputs))
    with pytest.raises(TextError, match='input "word" takes text'):
        verification_cases(model)


def test_a_fixed_batch_is_every_batch():
    inputs = keras.Input(batch_shape=(4, 3), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert names(verification_cases(model)) == ["batch 4", "batch 4"]


def test_a_padded_case_that_gives_nan_is_left_out():
    """A mean over a row that is masked everywhere."""
    inputs = keras.Input((None, 3), name="x")
    masked = keras.layers.Masking()(inputs)
    found = verification_cases(keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(masked)))
    assert "batch 3, length 7, padded right" in names(found)
    assert "batch 3, length 7, row 0 masked" not in names(found)


def test_a_model_that_needs_more_timesteps_gets_them():
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, keras.layers.Conv1D(2, 12)(inputs))
    assert names(verification_cases(model)) == ["batch 1, length 13", "batch 3, length 25"]


def test_real_samples_of_which_half_is_too_short_are_taken_whole():
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, keras.layers.Conv1D(2, 8)(inputs))
    cases = verification_cases(model, np.ones((4, 10, 3), "float32"))
    assert names(cases) == ["batch 1, length 10", "batch 3, length 10"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"no finite outputs for random inputs .*, 90, 300\): .*\. Give real data: samples="),
        (np.ones((2, 20, 3), "float32"), "the model cannot run the samples: "),
        (np.ones((2, 20, 4), "float32"), r"takes arrays \(samples, ...\) of shape"),
    ],
)
def test_what_a_model_does_not_run_on_is_refused(data, message):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras.layers.Conv1D(2, 1000)(inputs))
    with pytest.raises(ValueError, match=message):
        verification_cases(model, data)


def test_a_signal_of_one_number_a_timestep_can_be_long():
    inputs = keras.Input((None, 1), name="audio")
    model = keras.Model(inputs, keras.layers.Conv1D(2, 1024, strides=256)(inputs))
    assert names(verification_cases(model)) == ["batch 1, length 1500", "batch 3, length 3000"]


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
def test_random_inputs_are_those_for_which_the_outputs_are_finite(function):
    for _, answer in verification_cases(pointwise(function)):
        assert np.isfinite(answer["y"]).all()


def test_normal_numbers_stay_where_the_outputs_are_finite():
    for case, _ in verification_cases(pointwise(keras.ops.exp)):
        assert case.inputs["x"].min() < 0 < case.inputs["x"].max()


def test_random_inputs_are_those_for_which_the_outputs_vary():
    """A rectifier that no normal number reaches."""
    _, (_, answer) = verification_cases(pointwise(lambda x: keras.ops.relu(x - 9.0)))
    assert np.ptp(answer["y"], axis=0).all()


def test_counts_whose_logarithm_is_taken_are_not_zero():
    inputs = keras.Input((5,), dtype="int32", name="x")
    logarithms = keras.ops.log(keras.ops.cast(inputs, "float32"))
    for case, _ in verification_cases(keras.Model(inputs, logarithms)):
        assert case.inputs["x"].min() > 0


def test_outputs_may_have_a_unit_that_is_always_nan():
    def with_nan(x):
        return keras.ops.concatenate([x, keras.ops.log(-keras.ops.square(x) - 1.0)], axis=-1)

    _, (case, answer) = verification_cases(pointwise(with_nan))
    np.testing.assert_array_equal(np.isnan(answer["y"]).mean(axis=(0, 1)), [0, 0, 1, 1])
    assert case.inputs["x"].min() < 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"'y' is NaN or infinite everywhere\. Give real data: samples="),
        (np.ones((4, 6, 2), "float32"), "for the samples, .* Give samples for which"),
    ],
    ids=["random", "real"],
)
def test_a_comparison_of_nan_alone_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        verification_cases(pointwise(lambda x: keras.ops.log(-keras.ops.square(x) - 1.0)), data)


def test_a_long_sequence_gives_finite_outputs_too():
    ((case, answer),) = long_case(pointwise(keras.ops.log))
    assert case.length == 300
    assert np.isfinite(answer["y"]).all()


def test_complex_inputs_need_samples():
    inputs = keras.Input((3,), dtype="complex64", name="spectrum")
    model = keras.Model(inputs, keras.ops.real(inputs))
    with pytest.raises(
        ValueError, match=r'"spectrum" takes complex64: .* be drawn\. Give real data: sam'
    ):
        verification_cases(model)
