"""Checks over data in several parts: batches of a dataset, and files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import check
from keras_norm.export.checks.artifacts import FunctionRunner, Source
from keras_norm.export.checks.data_reader import Data
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.subject import Subject, run_all_data
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.signature import input_specs
from tests.export import models

X = np.random.default_rng(0).normal(size=(90, 6, 3)).astype("float32")
Y = (X.sum(axis=(1, 2)) > 0).astype("int64")


@pytest.fixture(scope="module")
def model():
    x = keras.Input((None, 3), name="x")
    h = keras.layers.BatchNormalization(momentum=0.5)(x)
    h = keras.layers.GlobalAveragePooling1D()(h)
    model = keras.Model(x, keras.layers.Dense(2, name="y")(h))
    model(X[:64], training=True)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the data to three files, and the labels to three files."""
    folder = tmp_path_factory.mktemp("measure")
    for k in range(3):
        rows = slice(30 * k, 30 * k + 30)
        np.savez(folder / f"rows-{k}.npz", x=X[rows])
        np.savez(folder / f"labels-{k}.npz", y=Y[rows])
    return folder


def files(folder, name):
    return [folder / f"{name}-{k}.npz" for k in range(3)]


def wrong_for_sample(model, index):
    """Make a function with a wrong output for one sample."""
    run = KerasRunner(model)

    def wrong(inputs):
        outputs = run(inputs)
        at = (inputs["x"][:, :1] == X[index, :1]).all(axis=(1, 2))
        return {"y": outputs["y"] + 0.5 * (at & (inputs["x"].shape[1] == 6))[:, None]}

    return wrong


def figures(report):
    """Return the numbers of a report that depend on the data, without training mode."""
    (result,) = report.artifacts
    (output,) = result.outputs
    whole = output.comparisons[output.cases.index("all 90 samples")]
    metrics = [m.value for r in (report.keras, result) for m in r.metrics]
    metrics += [metric.inference for metric in report.gap.metrics]
    (layer,) = report.gap.layers
    return [whole.max_abs, whole.atol_needed, *metrics, layer.distance, layer.log_ratio]


def test_arrays_files_and_datasets_give_equal_reports(model, folder):
    artifact = [wrong_for_sample(model, 77)]
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(30)
    reports = [
        check(model, artifact, X, labels=Y, batch_sizes=[2, 5]),
        check(model, artifact, dataset, batch_sizes=[2, 5]),
        check(
            model,
            artifact,
            files(folder, "rows"),
            labels=files(folder, "labels"),
            batch_sizes=[2, 5],
        ),
    ]
    assert [report.samples for report in reports] == [90] * 3
    arrays, *others = map(figures, reports)
    assert arrays[0] == pytest.approx(0.5, rel=1e-3)
    for other in others:
        assert other == pytest.approx(arrays, rel=1e-3)


def test_a_wrong_sample_is_named_by_its_index_in_the_data_or_in_its_file(model, folder):
    artifact = wrong_for_sample(model, 77)
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(30)
    for data, where in ((dataset, "sample"), (files(folder, "rows"), "rows-2.npz: sample")):
        report = check(model, artifact, data, batch_sizes=[2], lengths=[6])
        (output,) = report.artifacts[0].outputs
        assert [c.passed for c in output.comparisons[:2]] == [True, False]
        assert output.comparisons[1].where[0] == (where, 77 if where == "sample" else 17)
        assert report.artifacts[0].first_difference is not None


def test_batches_of_several_lengths_are_checked_and_the_tolerance_follows_the_longest():
    rnn = keras.layers.SimpleRNN(2)
    model = models.stack(rnn)

    def batches():
        yield from (X[:30], X[30:60, :2], np.repeat(X[60:], 50, axis=1))

    spec = tf.TensorSpec((None, None, 3), "float32")
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    report = check(model, [KerasRunner(model)], dataset)
    assert report
    assert (report.samples, report.timesteps) == (90, 300)


def test_an_artifact_may_return_lists(model):
    run = KerasRunner(model)

    def lists(inputs):
        return {name: y.tolist() for name, y in run(inputs).items()}

    assert check(model, [lists], X, labels=Y, batch_sizes=[32], lengths=[6])


def test_an_artifact_that_raises_in_the_middle_of_the_data_fails(model):
    run = KerasRunner(model)

    def breaks(inputs):
        if (inputs["x"][0, :1] == X[64, :1]).all():
            raise RuntimeError("out of memory")
        return run(inputs)

    report = check(model, [breaks, run], X, batch_sizes=[32], lengths=[6])
    assert [(f.subject, f.check, f.detail) for f in report.failures] == [
        ("breaks", "run", "out of memory")
    ]


def test_labels_that_do_not_fit_in_a_later_batch_raise(model):
    y = Y.copy()
    y[70] = 2
    dataset = tf.data.Dataset.from_tensor_slices((X, y)).batch(30)
    with pytest.raises(ValueError, match=r"class numbers below 2\. Received: 2"):
        check(model, [KerasRunner(model)], dataset)


@pytest.mark.parametrize("wrong", [None, 5, 77])
def test_the_worst_batch_is_recorded_also_if_all_values_pass(model, wrong):
    own, data = KerasRunner(model), Data(input_specs(model), X)
    run = FunctionRunner(own if wrong is None else wrong_for_sample(model, wrong))
    plan = Plan(model, data.first()[0])
    subject = Subject(Source("run", "", "float32", None), plan, run)
    run_all_data(data, plan, [subject], GapMeter(model), None)
    case = subject.on_data.worst
    assert wrong is None or wrong in case.rows
    np.testing.assert_array_equal(own(case.inputs)["y"], case.outputs["y"])
