"""Malicious TFLite and ONNX files access no other file, and names in a report are text."""

import dataclasses
import html.parser
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import RunnerError, check, export_onnx, export_tflite, open_runner
from keras_norm.export.results.artifact_result import Cost, Metric, PropertyResult
from keras_norm.export.results.check_result import Finding, LayerStatistics, TrainInferenceGap
from tests.export import models
from tests.export.report.reports import EXPECTED, artifact, report_of

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


def test_a_tflite_file_cannot_call_an_op_of_tensorflow_that_writes_a_file(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def write(x):
        with tf.control_dependencies([tf.io.write_file(str(tmp_path / "written"), "text")]):
            return {"y": tf.identity(x)}

    module = tf.Module()
    module.write = write
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [write.get_concrete_function()], module
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.SELECT_TF_OPS]
    path = tmp_path / "model.tflite"
    path.write_bytes(converter.convert())
    with open_runner(path) as run, pytest.raises(RunnerError, match="FlexWriteFile"):
        run({"x": X})
    assert not check(models.dense(), path, X)
    assert not (tmp_path / "written").exists()


def test_the_command_and_its_workers_import_no_module_of_the_working_directory(tmp_path):
    model = models.dense()
    model.save(tmp_path / "model.keras")
    export_tflite(model, tmp_path / "model.tflite")
    np.save(tmp_path / "x.npy", X)
    for name in ("json", "keras", "numpy", "worker_protocol"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    command = pathlib.Path(sys.executable).with_name("keras-norm")
    arguments = ["check", "model.keras", "model.tflite", "--data", "x.npy"]
    done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("inside", [True, False])
def test_an_onnx_file_reads_weights_of_its_folder_only(inside, tmp_path):
    onnx = pytest.importorskip("onnx")
    (tmp_path / "folder").mkdir()
    path = export_onnx(models.dense(), tmp_path / "folder" / "model.onnx")
    model = onnx.load(path)
    kernel = next(weight for weight in model.graph.initializer if len(weight.dims) == 2)
    (path.parent / "kernel").write_bytes(kernel.raw_data)
    (tmp_path / "kernel").write_bytes(kernel.raw_data)
    onnx.external_data_helper.set_external_data(kernel, "kernel" if inside else "../kernel")
    kernel.ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    if inside:
        with open_runner(path) as run:
            assert run({"x": X})["y"].shape == (4, 2)
    else:
        with pytest.raises(RunnerError, match="escapes model directory"):
            open_runner(path)


class Elements(html.parser.HTMLParser):
    """Collects the elements of a page, and the names of their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found |= {tag, *(name for name, _ in attributes)}


def test_no_name_in_a_report_becomes_an_element_of_the_page():
    properties = (PropertyResult(HOSTILE, "fail", HOSTILE), PropertyResult("b", "pass", HOSTILE))
    layer = LayerStatistics(HOSTILE, 2.0, 1.0, (1.0, None), 1, 2, HOSTILE, (3, 0))
    gap = TrainInferenceGap("large", HOSTILE, layers=(layer,))
    named = artifact(HOSTILE, EXPECTED + 0.5, properties=properties)
    (output,) = named.outputs
    output = dataclasses.replace(output, output=HOSTILE, cases=(HOSTILE,))
    cost = Cost(1000, ((1, 0.5),), ((HOSTILE, 2),))
    metric = Metric(HOSTILE, HOSTILE, 0.5)
    named = dataclasses.replace(named, outputs=(output,), cost=cost, metrics=(metric,))
    report = report_of(named, artifact("broken", EXPECTED, outputs=(), error=HOSTILE), gap=gap)
    report = dataclasses.replace(
        report,
        model=HOSTILE,
        keras=dataclasses.replace(report.keras, metrics=(metric,), cost=cost),
        notes=(HOSTILE,),
        versions=((HOSTILE, HOSTILE),),
        findings=(Finding(HOSTILE, HOSTILE, HOSTILE),),
    )
    for page in (report.page(), report._repr_html_()):
        assert "script" not in Elements(page).found
        assert "onerror" not in Elements(page).found
        assert page.count("alert(1)") > 10
