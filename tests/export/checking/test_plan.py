import keras
import numpy as np
import pytest

from keras_norm.export.checking.plan import make_plan
from keras_norm.export.comparing.cases import read_samples
from keras_norm.export.comparing.compare import TOLERANCES
from keras_norm.export.signature import input_specs

DATA = np.random.default_rng(0).normal(size=(40, 6, 3)).astype("float32")


def plan_of(*layers, **options):
    keras.utils.set_random_seed(0)
    y = keras.layers.Dense(2, name="y")
    model = keras.Sequential([keras.Input((None, 3), name="x"), *layers, y])
    return model, make_plan(model, read_samples(input_specs(model), DATA), **options)


@pytest.fixture(scope="module")
def masked():
    return plan_of(keras.layers.Masking(-1.0), keras.layers.SimpleRNN(4), lengths=[100])


def test_every_case_has_the_model_s_answer(masked):
    model, plan = masked
    for case, expected in zip(plan.cases, plan.expected, strict=True):
        np.testing.assert_allclose(expected["y"], model(case.inputs["x"]), atol=1e-5)


def test_masked_cases_are_small_batches_of_the_data_s_length(masked):
    _, plan = masked
    found = [(len(case.rows), case.length) for case in plan.cases if case.masked]
    assert found == [(7, 6)] * 4


def test_an_input_that_is_masked_after_another_layer_is_noted():
    layers = keras.layers.Rescaling(2.0), keras.layers.Masking(name="masking")
    _, plan = plan_of(*layers, lengths=[6])
    assert not any(case.masked for case in plan.cases)
    (note,) = plan.notes
    assert note.startswith("input 'x' is padded in no case: 'masking' masks")


def test_the_tolerance_follows_layers_and_the_longest_case(masked):
    _, plan = masked
    assert (plan.layers, plan.timesteps) == (2, 100)
    assert plan.share("float32") == pytest.approx(2 * TOLERANCES["float32"])
    tolerance = plan.tolerance("float32", None, None)
    scale = max(np.abs(answer["y"]).max() for answer in plan.expected)
    assert tolerance.rtol == plan.share("float32")
    assert tolerance.atol == {"y": pytest.approx(plan.share("float32") * scale)}


def test_a_tolerance_that_was_asked_for_is_absolute(masked):
    tolerance = masked[1].tolerance("float32", 0.5, 0.25)
    assert (tolerance.rtol, tolerance.atol) == (0.5, {"y": 0.25})


def test_time_does_not_count_without_a_recurrence():
    assert plan_of(lengths=[100])[1].timesteps == 1


def test_metrics_are_those_of_all_samples_at_their_own_length():
    model, plan = plan_of(keras.layers.GlobalAveragePooling1D(), labels=np.zeros((40, 2)))
    (metric,) = plan.metrics(plan.expected)
    expected = float(np.mean(np.square(model(DATA))))
    assert metric.value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda y: y[:1], id="one row"),
        pytest.param(lambda y: y.sum(axis=0), id="no batch axis"),
        pytest.param(lambda y: y.sum(), id="a number"),
        pytest.param(lambda y: y[:, :1], id="other rows"),
    ],
)
def test_an_output_of_another_shape_has_no_metric(cut):
    _, plan = plan_of(keras.layers.GlobalAveragePooling1D(), labels=np.zeros((40, 2)))
    assert plan.metrics([{"y": cut(answer["y"])} for answer in plan.expected]) == ()


def test_labels_are_refused_where_the_model_gives_no_row_for_each_sample():
    over_the_batch = keras.layers.Lambda(lambda x: keras.ops.mean(x, axis=0))
    with pytest.raises(ValueError, match="the model has none"):
        plan_of(over_the_batch, labels=np.zeros(40))
