import keras
import numpy as np
import pytest
from keras import ops

import keras_norm
from keras_norm.export import check
from keras_norm.export.checks import explain_differences
from keras_norm.export.compare.input_cases import masked_cases
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs

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


@pytest.fixture(scope="module")
def model():
    return sequence_model()


@pytest.fixture(scope="module")
def masked():
    return sequence_model(keras.layers.Masking(-1.0), keras.layers.SimpleRNN(4))


def faulty(model, fault):
    """Make a runner that returns fault(inputs, outputs) for the outputs of the model."""
    run = KerasRunner(model)

    def faulty_run(inputs):
        return fault(inputs, run(inputs))

    return faulty_run


def failed(report):
    return {(failure.subject, failure.check) for failure in report.failures}


def test_an_equal_artifact_passes(model):
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert report.failures == ()


def test_all_samples_are_compared(model):
    report = check(model, [KerasRunner(model)], DATA)
    (output,) = report.artifacts[0].outputs
    assert {"batch 7, length 6", "batch 2, length 9", "all 9 samples"} <= set(output.cases)


def test_the_report_names_the_sample_of_a_wrong_value(model):
    def fault(inputs, outputs):
        outputs["y"] = outputs["y"] + 0.5 * (inputs["x"][..., :1] == DATA[8, 5, 0])
        return outputs

    report = check(model, [faulty(model, fault)], DATA, lengths=[6])
    (output,) = report.artifacts[0].outputs
    worst = output.comparisons[output.worst_case]
    assert failed(report) == {("faulty_run", "values")}
    assert worst.where[:2] == (("sample", 8), ("timestep", 5))
    assert worst.atol_needed == pytest.approx(0.5, rel=1e-3)


def test_an_artifact_that_mixes_rows_fails(model):
    def fault(inputs, outputs):
        outputs["y"] = outputs["y"] - outputs["y"].mean(axis=0)
        return outputs

    report = check(model, [faulty(model, fault)], DATA)
    assert ("faulty_run", "row independence") in failed(report)


def test_a_keras_model_that_mixes_rows_fails():
    leaky = sequence_model(keras.layers.BatchNormalization())
    leaky.layers[0].call = lambda x, **_: x - ops.mean(x, axis=0)
    report = check(leaky, [KerasRunner(leaky)], DATA)
    assert ("Keras model", "row independence") in failed(report)


def test_a_keras_model_without_a_batch_axis_fails():
    pooled = sequence_model(keras.layers.Lambda(lambda x: ops.mean(x, axis=0)))
    report = check(pooled, [KerasRunner(pooled)], DATA)
    assert ("Keras model", "row independence") in failed(report)
    assert report.keras.property("row independence").detail.endswith("for a batch of 7 rows")


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("labels", [None, np.zeros((9, 6), int)], ids=["", "labels"])
def test_an_artifact_with_a_fixed_number_of_rows_fails(model, rows, labels):
    def fault(_, outputs):
        return {"y": np.resize(outputs["y"], (rows, *outputs["y"].shape[1:]))}

    report = check(model, [faulty(model, fault)], DATA, labels=labels)
    assert failed(report) >= {("faulty_run", "values"), ("faulty_run", "row independence")}
    assert "wrong shape" in next(f.detail for f in report.failures if f.check == "values")
    assert report.artifacts[0].metrics == ()


def test_an_artifact_that_keeps_state_between_calls_fails(model):
    calls = []

    def fault(inputs, outputs):
        calls.append(1)
        outputs["y"] = outputs["y"] + 0.001 * len(calls)
        return outputs

    report = check(model, [faulty(model, fault)], DATA, atol=0.0, rtol=0.0)
    assert ("faulty_run", "repeat") in failed(report)


def test_an_artifact_whose_first_call_later_differs_fails(model):
    def fault(inputs, outputs):
        fault.largest = max(fault.largest, len(inputs["x"]))
        outputs["y"] = outputs["y"] + (fault.largest > 1)
        return outputs

    fault.largest = 0
    report = check(model, [faulty(model, fault)], DATA)
    assert ("faulty_run", "weights") in failed(report)


def test_nan_in_an_artifact_fails(model):
    report = check(
        model, [faulty(model, lambda _, out: {"y": np.full_like(out["y"], np.nan)})], DATA
    )
    (failure, *_) = report.failures
    assert failure.check == "values"
    assert "NaN" in failure.detail


def test_nan_in_the_model_and_in_the_artifact_fails():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, {"y": ops.log(x), "z": ops.log(ops.square(x) + 1.0)})
    report = check(model, [KerasRunner(model)], -np.abs(DATA))
    assert failed(report) == {("Keras model", "no NaN"), ("Keras", "values")}
    (finding,) = report.findings[:1]
    assert finding.observation == "output 'y' is NaN for every sample"
    assert finding.advice.startswith("Give data for which no output is NaN")
    assert report.artifacts[0].first_difference is None


def test_nan_in_the_model_for_one_sample_fails():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, {"y": ops.log(x)})
    data = np.abs(DATA)
    data[8, 5, 0] = -1.0
    report = check(model, [KerasRunner(model)], data)
    assert ("Keras model", "no NaN") in failed(report)
    assert report.findings[0].observation == "output 'y' is NaN in 1 of 162 values"


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_an_output_that_is_equal_for_all_samples_gives_a_note(kind):
    x = keras.Input((None, 3), name="x")
    first = ops.cast(ops.relu(x[:, 0] - 9.0), kind)
    model = keras.Model(x, {"y": first, "z": x[:, 1]})
    note = (
        "output 'y' is equal for all 9 samples, so its comparison shows little: give data for "
        "which it differs"
    )
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert [n for n in report.notes if "is equal for all" in n] == [note]
    one_differs = DATA.copy()
    one_differs[8, 0, 0] = 99.0
    assert note not in check(model, [KerasRunner(model)], one_differs).notes


def test_a_missing_output_fails(model):
    report = check(model, [faulty(model, lambda _, out: {"other": out["y"]})], DATA)
    details = " ".join(failure.detail for failure in report.failures)
    assert "missing output; the outputs are: other" in details
    assert "extra output" in details


def test_a_keras_model_that_changes_a_weight_at_inference_fails():
    counting = sequence_model(Counts(name="counts"))
    report = check(counting, [KerasRunner(sequence_model())], DATA)
    assert failed(report) == {("Keras model", "weights")}
    assert "calls" in report.failures[0].detail


def test_check_restores_the_variables_of_the_model():
    counting = sequence_model(Counts())
    check(counting, [KerasRunner(sequence_model())], DATA)
    assert counting.weights[0].numpy() == 0.0


def test_padding_that_changes_no_output_passes(masked):
    own = check(masked, [KerasRunner(masked)], DATA).keras
    assert own.property("right padding").status == "pass"
    assert own.property("left padding").status == "pass"


def test_a_mask_inside_a_nested_model_is_padded(masked):
    inputs = keras.Input((None, 3), name="x")
    outer = keras.Model(inputs, masked(inputs))
    assert check(outer, [KerasRunner(outer)], DATA).keras.property("right padding").status == "pass"


@pytest.mark.parametrize("where", ["padded right", "padded left", "with gaps", "row 0 masked"])
def test_an_artifact_that_is_wrong_for_masked_timesteps_fails(masked, where):
    cases = masked_cases(read_samples(input_specs(masked), DATA), {"x": -1.0})
    (wrong,) = (case.inputs["x"] for case in cases if case.name.endswith(where))

    def fault(inputs, outputs):
        outputs["y"] = outputs["y"] + np.array_equal(inputs["x"], wrong)
        return outputs

    report = check(masked, [faulty(masked, fault)], DATA)
    assert failed(report) == {("faulty_run", "values")}
    assert report.failures[0].detail.startswith(f"batch 7, length 6, {where}: ")


def off_at_zeros(by):
    """Make a fault that changes the outputs of rows of zeros only."""

    def fault(inputs, outputs):
        silent = ~inputs["x"].any(axis=(1, 2), keepdims=True)
        return {name: y + by * silent for name, y in outputs.items()}

    return fault


def test_an_artifact_that_is_wrong_for_a_row_of_zeros_fails(model):
    report = check(model, [faulty(model, off_at_zeros(0.01))], DATA)
    (failure,) = report.failures
    assert failure.detail.startswith("batch 2, length 6, row 0 zeros: output 'y' differs by up to")
    assert report.findings[0].observation.startswith("no sample of the data differs, but batch 2, ")


@pytest.mark.parametrize(
    ("by", "options", "passes"),
    [(0.01, {}, True), (1.0, {}, False), (0.01, {"atol": 1e-4}, False)],
    ids=["rounding", "far more", "a tolerance of the user's"],
)
def test_rounding_that_the_model_magnifies_for_zeros_gives_a_note(
    model, monkeypatch, by, options, passes
):
    monkeypatch.setattr(explain_differences, "rounding_errors", lambda *_: {"y": 0.5 * by})
    report = check(model, [faulty(model, off_at_zeros(by))], DATA, **options)
    assert report.passed == passes
    assert passes == any("Rounding alone changes this output" in n for n in report.notes)


def test_an_argmax_of_equal_scores_may_differ():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, {"y": ops.argmax(x, axis=-1)})

    def other(inputs, outputs):
        equal = np.ptp(inputs["x"], axis=-1) == 0
        return {"y": np.where(equal, 2, outputs["y"]).astype(outputs["y"].dtype)}

    assert check(model, [faulty(model, other)], DATA)


def test_right_padding_that_changes_the_keras_model_fails():
    backward = keras_norm.BatchNormSimpleRNN(4, max_timesteps=8, go_backwards=True)
    model = sequence_model(keras.layers.Masking(-1.0), backward)
    model(DATA, training=True)
    report = check(model, [KerasRunner(model)], DATA)
    assert failed(report) == {("Keras model", "right padding")}
    assert any(f.advice.startswith("Pad on the left") for f in report.findings)


def test_left_padding_that_changes_the_keras_model_is_reported_without_a_failure():
    recurrence = keras_norm.BatchNormSimpleRNN(4, max_timesteps=8)
    model = sequence_model(keras.layers.Masking(-1.0), recurrence)
    model(DATA, training=True)
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert report.keras.property("left padding").status == "differs"
    assert any(f.advice.startswith("Pad on the right") for f in report.findings)


def test_output_sequences_are_compared_at_unpadded_timesteps():
    inputs = keras.Input((None,), dtype="int32", name="x")
    h = keras.layers.Embedding(10, 4, mask_zero=True)(inputs)
    model = keras.Model(inputs, keras.layers.SimpleRNN(3, return_sequences=True, name="y")(h))
    tokens = np.random.default_rng(0).integers(1, 10, size=(9, 5))
    own = check(model, [KerasRunner(model)], tokens).keras
    assert own.property("right padding").status == "pass"
    assert own.property("left padding").status == "pass"


def test_a_mask_that_is_an_input_is_padded():
    x, keep = keras.Input((None, 3), name="x"), keras.Input((None,), dtype="bool", name="keep")
    h = keras.layers.SimpleRNN(4)(keras.layers.Dense(4)(x), mask=keep)
    model = keras.Model([x, keep], keras.layers.Dense(2, name="y")(h))
    report = check(model, [KerasRunner(model)], {"x": DATA, "keep": np.ones((9, 6), bool)})
    assert report.keras.property("right padding").status == "pass"
    assert "batch 7, length 6, with gaps" in report.artifacts[0].outputs[0].cases


def test_a_masked_row_with_nan_in_the_keras_model_gives_a_note():
    layers = keras.layers.Masking(-1.0), keras.layers.GlobalAveragePooling1D()
    model = sequence_model(*layers)
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    note = "batch 7, length 6, row 0 masked was left out: an output of the Keras model has NaN"
    assert note in report.notes


def test_padding_does_not_apply_without_a_mask(model):
    tested = check(model, [KerasRunner(model)], DATA).keras.property("right padding")
    assert tested.status == "not applicable"
    assert "Masking" in tested.detail


def test_an_error_of_a_runner_fails_only_its_artifact(model):
    def broken(inputs):
        raise RuntimeError("the device went away\nmore")

    report = check(model, [broken, KerasRunner(model)], DATA)
    assert [(f.check, f.detail) for f in report.failures] == [("run", "the device went away")]
    assert [result.passed for result in report.artifacts] == [False, True]


def test_lengths_that_the_model_cannot_run_are_left_out_with_a_note():
    model = sequence_model(keras.layers.Conv1D(4, 3))
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    assert any(note.startswith("batch 1, length 1 was left out") for note in report.notes)


def test_a_length_that_the_user_gave_must_run():
    model = sequence_model(keras.layers.Conv1D(4, 3))
    with pytest.raises(ValueError, match="cannot run batch 1, length 1"):
        check(model, [KerasRunner(model)], DATA, lengths=[1])


def test_the_user_s_tolerance_replaces_the_default(model):
    def fault(_, outputs):
        return {"y": outputs["y"] + 0.01}

    assert not check(model, [faulty(model, fault)], DATA)
    assert check(model, [faulty(model, fault)], DATA, atol=0.02)


def test_the_tolerance_follows_the_timesteps_that_a_recurrence_runs():
    """The LSTM runs one timestep for each 256 samples of audio, because of the convolution."""
    audio = keras.Input((None, 1), name="audio")
    frames = keras.layers.Conv1D(4, 512, strides=256)(audio)
    model = keras.Model(audio, keras.layers.Dense(2, name="y")(keras.layers.LSTM(4)(frames)))
    x = np.random.default_rng(0).normal(size=(3, 24_576, 1)).astype("float32")

    def fault(_, outputs):
        return {"y": 1.0002 * outputs["y"]}

    report = check(model, [faulty(model, fault)], x, batch_sizes=[2], lengths=[24_576])
    assert report.timesteps == 95
    assert failed(report) == {("faulty_run", "values")}


def test_atol_needed_is_the_smallest_atol_that_passes(model):
    def fault(inputs, outputs):
        return {"y": outputs["y"] * 1.001 + 0.01 * (len(inputs["x"]) == 2)}

    needed = check(model, [faulty(model, fault)], DATA).artifacts[0].atol_needed
    assert check(model, [faulty(model, fault)], DATA, atol=needed)
    assert not check(model, [faulty(model, fault)], DATA, atol=needed * 0.999)


def test_atol_needed_is_none_for_nan(model):
    report = check(
        model, [faulty(model, lambda _, out: {"y": np.full_like(out["y"], np.nan)})], DATA
    )
    assert report.artifacts[0].atol_needed is None


def test_a_difference_by_rounding_is_reported_as_rounding():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, keras.layers.Dense(2, name="y")(keras.layers.Rescaling(1e4)(x)))

    def fault(_, outputs):
        return {"y": np.nextafter(outputs["y"], np.float32(np.inf))}

    report = check(model, [faulty(model, fault)], DATA, rtol=0.0, atol=0.0)
    assert report.artifacts[0].first_difference.is_rounding
    assert "lengths=" in report.findings[0].advice


def test_labels_give_the_metric_of_every_artifact_and_of_both_modes():
    model = sequence_model(keras.layers.BatchNormalization(), keras.layers.SimpleRNN(4))
    labels = KerasRunner(model)({"x": DATA})["y"].argmax(axis=-1)

    def fault(_, outputs):
        return {"y": -outputs["y"]}

    report = check(model, [KerasRunner(model), faulty(model, fault)], DATA, labels=labels)
    assert [m.value for r in (report.keras, *report.artifacts) for m in r.metrics] == [1, 1, 0]
    (gap,) = report.gap.metrics
    assert (gap.name, gap.inference) == ("accuracy", 1.0)


def test_a_model_that_outputs_classes_has_an_accuracy_in_both_modes():
    x = keras.Input((None, 3), name="x")
    scores = keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D()(x))
    model = keras.Model(x, ops.argmax(scores, axis=-1))
    (labels,) = KerasRunner(model)({"x": DATA}).values()
    report = check(model, [KerasRunner(model)], DATA, labels=labels)
    (gap,) = report.gap.metrics
    assert [m.value for r in (report.keras, *report.artifacts) for m in r.metrics] == [1, 1]
    assert (gap.name, gap.inference, gap.training) == ("accuracy", 1.0, 1.0)


def test_labels_that_do_not_fit_raise(model):
    with pytest.raises(ValueError, match="one row for each of the 9 samples"):
        check(model, [KerasRunner(model)], DATA, labels=np.zeros(3, int))


def test_half_precision_inside_the_model_widens_the_tolerance():
    inputs = keras.Input((None, 3))
    h = keras.layers.Dense(4, dtype="mixed_float16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(h))
    assert check(model, [KerasRunner(model)], DATA).artifacts[0].precision == "float16"


def test_a_model_with_a_static_batch_is_checked():
    model = keras.Sequential([keras.Input((None, 3), batch_size=4), keras.layers.Dense(2)])
    report = check(model, [KerasRunner(model)], DATA)
    assert report
    (output,) = report.artifacts[0].outputs
    assert {case.split(",")[0] for case in output.cases} == {"batch 4", "all 9 samples"}
    assert report.gap.verdict == "ok"


def test_rows_that_fill_a_static_batch_are_excluded_from_metrics():
    x = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    layers = [keras.layers.BatchNormalization(), keras.layers.Dense(1, name="y")]
    model = keras.Sequential([keras.Input((3,), batch_size=4), *layers])
    report = check(model, [KerasRunner(model)], x, labels=np.zeros((5, 1)))
    (metric,), (own,) = report.gap.metrics, report.keras.metrics
    squared = [np.mean(np.square(model.predict(x[[k] * 4], verbose=0)[0])) for k in range(5)]
    assert metric.inference == own.value == pytest.approx(np.mean(squared), rel=1e-5)


def test_a_unit_smaller_than_the_tolerance_gives_a_note():
    model = sequence_model()
    kernel, bias = model.get_layer("y").get_weights()
    model.get_layer("y").set_weights([kernel * [1e6, 1.0], bias])
    report = check(model, [KerasRunner(model)], DATA)
    (note,) = [note for note in report.notes if "than the tolerance" in note]
    assert note.startswith("output 'y': unit 1 varies by")
    plain = sequence_model()
    assert not [
        n for n in check(plain, [KerasRunner(plain)], DATA).notes if "than the tolerance" in n
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"artifacts": []}, "nothing to check"),
        ({"data": {"z": DATA}}, "must be the model's inputs"),
        ({"data": DATA[:1]}, "check needs at least 2 samples"),
        ({"artifacts": sequence_model()}, "Keras model is not an artifact"),
        ({"artifacts": 3}, "An artifact is the path of a SavedModel.* Received: 3"),
        ({"artifacts": [None]}, "An artifact is the path of a SavedModel.* Received: None"),
        ({"artifacts": b"folder"}, "An artifact is the path of a SavedModel.* Received: b'folder'"),
        ({"rtol": -1.0}, "rtol must be a finite number"),
        ({"rtol": 1.0}, "rtol must be below 1, else outputs of zeros pass"),
        ({"atol": True}, "atol must be a finite number"),
        ({"rtol": "1e-3"}, "Received: rtol='1e-3'"),
        ({"atol": float("nan")}, "atol must be a finite number"),
        ({"max_gap": float("inf")}, "max_gap must be a finite number"),
        ({"batch_sizes": 4}, "batch_sizes must be a list of positive whole numbers. Received: 4"),
        ({"batch_sizes": [2.5]}, "Received: \\[2\\.5\\]"),
        ({"lengths": 4}, "lengths must be a list"),
        ({"labels": {"z": np.zeros(9)}}, "must be outputs: 'y'"),
    ],
)
def test_wrong_arguments_raise_before_an_artifact_runs(model, arguments, message):
    def never(inputs):
        pytest.fail("it ran")

    with pytest.raises(ValueError, match=message):
        check(model, **{"artifacts": [never], "data": DATA, **arguments})


def test_an_atol_that_accepts_zeros_raises(model):
    with pytest.raises(
        ValueError, match=r"With atol=1e\+09 an output of zeros passes, because the largest"
    ):
        check(model, [faulty(model, lambda _, outputs: {"y": 0 * outputs["y"]})], DATA, atol=1e9)


def test_a_path_that_does_not_exist_raises(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        check(model, tmp_path / "nowhere", DATA)


def test_a_folder_without_a_saved_model_raises(model, tmp_path):
    with pytest.raises(ValueError, match="is not a SavedModel"):
        check(model, [tmp_path], DATA)


def test_a_file_without_a_model_raises(model, tmp_path):
    file = tmp_path / "model.tflite"
    file.write_text("not a model at all")
    with pytest.raises(ValueError, match="not a SavedModel folder, a TFLite file or an ONNX file"):
        check(model, [file], DATA)


def test_an_output_that_is_as_wide_as_the_sequence_is_long_passes_at_every_length():
    x = keras.Input((None, 3), name="x")
    y = keras.layers.Dense(1)(keras.layers.SimpleRNN(4, return_sequences=True)(x))
    model = keras.Model(x, keras.layers.Reshape((-1,))(y))
    assert check(model, [KerasRunner(model)], DATA, lengths=[4, 6])


def test_atol_needed_is_none_for_integers():
    x = keras.Input((3,), dtype="int32", name="x")
    model = keras.Model(x, keras.layers.Identity(name="y")(x))
    wrong = faulty(model, lambda _, outputs: {"y": outputs["y"] + 3})
    report = check(model, [wrong], np.arange(24).reshape(8, 3))
    assert report.artifacts[0].atol_needed is None
    assert not any("atol" in finding.advice for finding in report.findings)


def test_a_function_may_have_attributes_of_any_name(model):
    class Served:
        """A user's client of a server."""

        path, batch, state, ops = "http://server", "many", None, 3
        run = KerasRunner(model)

        def __call__(self, inputs):
            return self.run(inputs)

    assert check(model, [Served()], DATA)
