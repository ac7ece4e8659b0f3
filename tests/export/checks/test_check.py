import keras
import numpy as np
import pytest
from keras import ops

from keras_norm.export import check
from keras_norm.export.compare.input_cases import masked_cases
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs
from tests.export.checks.faulty_artifacts import DATA, failed, faulty, sequence_model
from tests.export.own_layers import Counter

pytestmark = pytest.mark.usefixtures("unmeasured_rounding")


def test_an_equal_artifact_passes_and_all_samples_are_compared(model):
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert report.failures == ()
    (output,) = report.artifacts[0].outputs
    assert {"batch 7, length 6", "batch 2, length 9", "all 9 samples"} <= set(output.cases)


@pytest.mark.parametrize("rows", [1, 3])
def test_an_artifact_with_a_fixed_number_of_rows_fails(model, rows):
    def fault(_, outputs):
        return {"y": np.resize(outputs["y"], (rows, *outputs["y"].shape[1:]))}

    report = check(model, [faulty(model, fault)], DATA, labels=np.zeros((9, 6), int))
    assert failed(report) >= {("faulty_run", "values"), ("faulty_run", "row independence")}
    assert "wrong shape" in next(f.detail for f in report.failures if f.check == "values")
    assert report.artifacts[0].metrics == ()


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_an_output_that_is_equal_for_all_samples_gives_a_note(kind):
    x = keras.Input((None, 3), name="x")
    first = ops.cast(ops.relu(x[:, 0] - 9.0), kind)
    model = keras.Model(x, {"y": first, "z": x[:, 1]})
    note = (
        "output 'y' is equal for all 9 samples, so its comparison may miss an error: give data for "
        "which this output varies"
    )
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert [n for n in report.notes if "is equal for all" in n] == [note]
    one_differs = DATA.copy()
    one_differs[8, 0, 0] = 99.0
    assert note not in check(model, [KerasRunner(model)], one_differs).notes


def test_check_restores_the_variables_of_the_model():
    counting = sequence_model(Counter())
    check(counting, [KerasRunner(sequence_model())], DATA)
    assert counting.weights[0].numpy() == 0.0


@pytest.mark.parametrize("where", ["padded left", "row 0 masked"])
def test_an_artifact_that_is_wrong_for_masked_timesteps_fails(masked, where):
    cases = masked_cases(read_samples(input_specs(masked), DATA), {"x": -1.0})
    (wrong,) = (case.inputs["x"] for case in cases if case.name.endswith(where))

    def fault(inputs, outputs):
        outputs["y"] = outputs["y"] + np.array_equal(inputs["x"], wrong)
        return outputs

    report = check(masked, [faulty(masked, fault)], DATA)
    assert failed(report) == {("faulty_run", "values")}
    assert report.failures[0].detail.startswith(f"batch 7, length 6, {where}: ")


def test_a_masked_row_with_nan_in_the_keras_model_gives_a_note():
    layers = keras.layers.Masking(-1.0), keras.layers.GlobalAveragePooling1D()
    model = sequence_model(*layers)
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    note = "batch 7, length 6, row 0 masked was left out: an output of the Keras model has NaN"
    assert note in report.notes


def test_an_error_of_a_runner_fails_only_its_artifact(model):
    def broken(inputs):
        raise RuntimeError("the device went away\nmore")

    report = check(model, [broken, KerasRunner(model)], DATA)
    assert [(f.check, f.detail) for f in report.failures] == [("run", "the device went away")]
    assert [result.passed for result in report.artifacts] == [False, True]


def test_a_length_that_the_user_gave_must_run():
    model = sequence_model(keras.layers.Conv1D(4, 3))
    with pytest.raises(ValueError, match="cannot run batch 1, length 1"):
        check(model, [KerasRunner(model)], DATA, lengths=[1])


def test_labels_give_the_metric_of_every_artifact_and_of_both_modes():
    model = sequence_model(keras.layers.BatchNormalization(), keras.layers.SimpleRNN(4))
    labels = KerasRunner(model)({"x": DATA})["y"].argmax(axis=-1)

    def fault(_, outputs):
        return {"y": -outputs["y"]}

    report = check(model, [KerasRunner(model), faulty(model, fault)], DATA, labels=labels)
    assert [m.value for r in (report.keras, *report.artifacts) for m in r.metrics] == [1, 1, 0]
    (gap,) = report.gap.metrics
    assert (gap.name, gap.inference) == ("accuracy", 1.0)


def test_rows_that_fill_a_static_batch_are_excluded_from_metrics():
    x = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    layers = [keras.layers.BatchNormalization(), keras.layers.Dense(1, name="y")]
    model = keras.Sequential([keras.Input((3,), batch_size=4), *layers])
    report = check(model, [KerasRunner(model)], x, labels=np.zeros((5, 1)))
    (metric,), (own,) = report.gap.metrics, report.keras.metrics
    (of_file,) = report.artifacts[0].metrics
    squared = [np.mean(np.square(model.predict(x[[k] * 4], verbose=0)[0])) for k in range(5)]
    assert (
        metric.inference == own.value == of_file.value == pytest.approx(np.mean(squared), rel=1e-5)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"artifacts": []}, "list of artifacts is empty"),
        ({"data": {"z": DATA}}, "must be the model's inputs"),
        ({"data": DATA[:1]}, "check needs at least 2 samples"),
        ({"artifacts": sequence_model()}, "Keras model is not an artifact"),
        ({"artifacts": [None]}, "An artifact is the path of a SavedModel.* Received: None"),
        ({"artifacts": b"folder"}, "An artifact is the path of a SavedModel.* Received: b'folder'"),
        ({"artifacts": {"a": "m.tflite"}}, "An artifact is the path of a SavedModel"),
        ({"rtol": -1.0}, "rtol must be a finite number"),
        ({"rtol": 1.0}, "rtol must be below 1: otherwise an output of zeros passes"),
        ({"atol": True}, "atol must be a finite number"),
        ({"rtol": "1e-3"}, "Received: rtol='1e-3'"),
        ({"atol": float("nan")}, "atol must be a finite number"),
        ({"max_gap": float("inf")}, "max_gap must be a finite number"),
        ({"batch_sizes": 4}, "batch_sizes must be a list of positive whole numbers. Received: 4"),
        ({"lengths": 4}, "lengths must be a list"),
        ({"labels": {"z": np.zeros(9)}}, "must be names of outputs: 'y'"),
    ],
)
def test_wrong_arguments_raise_before_an_artifact_runs(model, arguments, message):
    def never(inputs):
        pytest.fail("it ran")

    with pytest.raises(ValueError, match=message):
        check(model, **{"artifacts": [never], "data": DATA, **arguments})


def test_a_path_that_does_not_exist_raises(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        check(model, tmp_path / "nowhere", DATA)


def test_an_output_that_is_as_wide_as_the_sequence_is_long_passes_at_every_length():
    x = keras.Input((None, 3), name="x")
    y = keras.layers.Dense(1)(keras.layers.SimpleRNN(4, return_sequences=True)(x))
    model = keras.Model(x, keras.layers.Reshape((-1,))(y))
    assert check(model, [KerasRunner(model)], DATA, lengths=[4, 6])


def test_a_function_may_have_attributes_of_any_name(model):
    class Served:
        """A user's client of a server."""

        path, batch, state, ops = "http://server", "many", None, 3
        run = KerasRunner(model)

        def __call__(self, inputs):
            return self.run(inputs)

    assert check(model, [Served()], DATA)
