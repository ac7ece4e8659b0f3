"""The tolerance of a check, and differences by rounding."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_norm.export import check
from keras_norm.export.model import rounding
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models
from tests.export.checks.faulty_artifacts import DATA, failed, faulty, sequence_model


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
    observation = report.findings[0].observation
    assert observation.startswith(
        "the outputs are right for all samples of the data, but not for batch 2, "
    )


@pytest.mark.parametrize(
    ("by", "options", "passes"),
    [(0.01, {}, True), (1.0, {}, False), (0.01, {"atol": 1e-4}, False)],
    ids=["rounding", "far more", "a tolerance of the user's"],
)
def test_rounding_that_the_model_magnifies_for_zeros_gives_a_note(
    model, monkeypatch, by, options, passes
):
    monkeypatch.setattr(rounding, "rounding_errors", lambda *_: {"y": 0.5 * by})
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


@pytest.mark.usefixtures("unmeasured_rounding")
def test_the_tolerance_follows_the_timesteps_that_a_recurrence_runs():
    """The SimpleRNN runs one timestep for each 256 samples of audio, because of the convolution."""
    audio = keras.Input((None, 1), name="audio")
    frames = keras.layers.Conv1D(4, 512, strides=256)(audio)
    model = keras.Model(audio, keras.layers.Dense(2, name="y")(keras.layers.SimpleRNN(4)(frames)))
    x = np.random.default_rng(0).normal(size=(3, 24_576, 1)).astype("float32")

    def fault(_, outputs):
        return {"y": 1.0002 * outputs["y"]}

    report = check(model, [faulty(model, fault)], x, batch_sizes=[2], lengths=[24_576])
    assert report.timesteps == 95
    assert failed(report) == {("faulty_run", "values")}


@pytest.mark.usefixtures("unmeasured_rounding")
def test_atol_needed_is_the_smallest_atol_that_passes(model):
    def fault(inputs, outputs):
        return {"y": outputs["y"] * 1.001 + 0.01 * (len(inputs["x"]) == 2)}

    needed = check(model, [faulty(model, fault)], DATA).artifacts[0].atol_needed
    assert check(model, [faulty(model, fault)], DATA, atol=needed)
    assert not check(model, [faulty(model, fault)], DATA, atol=needed * 0.999)


def test_a_difference_by_rounding_is_reported_as_rounding():
    model = models.stack(keras.layers.Rescaling(1e4), keras.layers.Dense(2, name="y"))

    def fault(_, outputs):
        return {"y": np.nextafter(outputs["y"], np.float32(np.inf))}

    report = check(model, [faulty(model, fault)], DATA, rtol=0.0, atol=0.0)
    assert report.artifacts[0].first_difference.is_rounding
    assert "lengths=" in report.findings[0].advice


def test_half_precision_inside_the_model_widens_the_tolerance():
    inputs = keras.Input((None, 3))
    h = keras.layers.Dense(4, dtype="mixed_float16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(h))
    assert check(model, [KerasRunner(model)], DATA).artifacts[0].precision == "float16"


def test_a_unit_smaller_than_the_tolerance_gives_a_note():
    model = sequence_model()
    kernel, bias = model.get_layer("y").get_weights()
    model.get_layer("y").set_weights([kernel * [1e6, 1.0], bias])
    report = check(model, [KerasRunner(model)], DATA)
    (note,) = [note for note in report.notes if "other units have larger values" in note]
    assert note.startswith("output 'y': unit 1 varies by only")
    plain = sequence_model()
    assert not [
        n
        for n in check(plain, [KerasRunner(plain)], DATA).notes
        if "other units have larger values" in n
    ]


def test_an_atol_that_accepts_zeros_raises(model):
    with pytest.raises(
        ValueError, match=r"With atol=1e\+09 an output of zeros passes, because the largest"
    ):
        check(model, [faulty(model, lambda _, outputs: {"y": 0 * outputs["y"]})], DATA, atol=1e9)


def test_atol_needed_is_none_for_integers():
    model = models.of(keras.layers.Identity(name="y"), (3,), dtype="int32")
    wrong = faulty(model, lambda _, outputs: {"y": outputs["y"] + 3})
    report = check(model, [wrong], np.arange(24).reshape(8, 3))
    assert report.artifacts[0].atol_needed is None
    assert not any("atol" in finding.advice for finding in report.findings)
