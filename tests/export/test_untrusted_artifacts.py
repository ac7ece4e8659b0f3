"""Malicious TFLite and ONNX files access no other file, and names in a report are text."""

import dataclasses
import html.parser
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import RunnerError, check, export_onnx, open_runner
from keras_norm.export.formats.tflite.tflite_file import read_signature
from keras_norm.export.results.artifact_result import Cost, Metric, PropertyResult
from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.gap_result import LayerStatistics, TrainInferenceGap
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm_verify.runtimes import load_artifact
from tests.export import models
from tests.export.report.reports import EXPECTED, artifact, report_of
from tests.export.rewritten import rewritten

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[2K\u202e"


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


@pytest.mark.slow
def test_the_command_and_its_workers_import_no_module_of_the_working_directory(
    dense_files, tmp_path
):
    for name in ("model.keras", "model.tflite", "data.npz"):
        shutil.copy(dense_files / name, tmp_path)
    for name in ("json", "keras", "numpy", "channel", "worker_protocol"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    command = pathlib.Path(sys.executable).with_name("keras-norm")
    arguments = ["check", "model.keras", "model.tflite", "--data", "data.npz"]
    done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "imported").exists()


@pytest.fixture(scope="module")
def with_weights_in_a_file(tmp_path_factory):
    """Return a function that writes an ONNX file with its kernel in another file."""
    onnx = pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("onnx") / "folder"
    folder.mkdir()
    path = export_onnx(models.dense(), folder / "model.onnx")
    model = onnx.load(path)
    kernel = next(weight for weight in model.graph.initializer if len(weight.dims) == 2)
    content = kernel.raw_data
    for file in (folder / "kernel", folder.parent / "kernel"):
        file.write_bytes(content)
    (folder / "link").symlink_to("../kernel")

    def write(location):
        kernel.raw_data = content
        onnx.external_data_helper.set_external_data(kernel, location)
        kernel.ClearField("raw_data")
        path.write_bytes(model.SerializeToString())
        return path

    return write


def test_an_onnx_file_reads_weights_of_its_folder(with_weights_in_a_file, tmp_path, monkeypatch):
    path = with_weights_in_a_file("kernel")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel").write_bytes(bytes(24))
    with open_runner(path) as run:
        outputs = run({"x": X})["y"]
    options = {"path": str(path), "every_tensor": True}
    with WorkerProcess("onnx/run_onnx.py", subject="a trace", timeout=60) as worker:
        worker.load(options)
        traced = worker.run({"x": X})["y"]
    np.testing.assert_array_equal(traced, outputs)
    np.testing.assert_array_equal(load_artifact(path)("serving_default", {"x": X})["y"], outputs)


@pytest.mark.parametrize("location", ["../kernel", "link", "/etc/hostname"])
def test_an_onnx_file_reads_no_other_file(with_weights_in_a_file, location):
    path = with_weights_in_a_file(location)
    refused = "escapes model directory|Absolute path not allowed"
    with pytest.raises(RunnerError, match=refused):
        open_runner(path)
    with pytest.raises(Exception, match=refused):  # of ONNX Runtime
        load_artifact(path)


@pytest.fixture
def tflite(dense_files):
    return dense_files / "model.tflite"


def test_a_tflite_file_reads_no_weights_of_another_file(tflite, tmp_path):
    """The format can name a file of weights, and LiteRT does not read it."""

    def move_the_kernel(model, schema):
        kernel = next(t for t in model.subgraphs[0].tensors if list(t.shape) == [2, 3])
        kernel.buffer, kernel.externalBuffer = 0, 1
        group, buffer = schema.ExternalBufferGroupT(), schema.ExternalBufferT()
        group.name, buffer.id, buffer.length = b"kernel", 1, 24
        model.externalBufferGroups, model.externalBuffers = [group], [buffer]

    (tmp_path / "kernel").write_bytes(bytes(24))
    path = rewritten(tflite, tmp_path / "model.tflite", move_the_kernel)
    with open_runner(path) as run, pytest.raises(RunnerError, match="lacks data"):
        run({"x": X})


def nameless_signature(model, schema):
    model.signatureDefs[0].signatureKey = None


def nameless_output(model, schema):
    model.signatureDefs[0].outputs[0].name = None


def no_graph(model, schema):
    model.subgraphs = None


def letters_that_are_no_text(model, schema):
    model.signatureDefs[0].signatureKey = b"\xff"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (nameless_signature, "a signature has no name"),
        (nameless_output, "NoneType"),
        (no_graph, "NoneType"),
        (letters_that_are_no_text, "invalid start byte"),
    ],
)
def test_a_tflite_file_without_a_required_field_is_refused_in_one_line(
    tflite, damage, message, tmp_path
):
    path = rewritten(tflite, tmp_path / "model.tflite", damage)
    with pytest.raises(ValueError, match=f"{path} is damaged: .*{message}") as caught:
        read_signature(path)
    assert "\n" not in str(caught.value)


def test_a_name_in_a_file_cannot_send_commands_to_the_terminal_in_an_error(tflite, tmp_path):
    def rename(model, schema):
        model.signatureDefs[0].inputs[0].name = b"\x1b[2K\nPASS"
        model.signatureDefs[0].signatureKey = b"\x1b[2K\nPASS"

    path = rewritten(tflite, tmp_path / "model.tflite", rename)
    with open_runner(path) as run:
        said = [repr(run)]
        with pytest.raises(ValueError, match="takes the inputs") as caught:
            run({"x": X})
    said.append(str(caught.value))
    with pytest.raises(RunnerError, match="its signatures are") as refused:
        open_runner(path, signature_name="other")
    said.append(str(refused.value))
    for text in said:
        assert text.isprintable()
        assert r"\x1b[2K" in text


class Elements(html.parser.HTMLParser):
    """Collects the elements of a page, and the names of their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found |= {tag, *(name for name, _ in attributes)}


def test_names_in_a_report_become_no_element_and_no_control_character_of_the_page():
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
        assert all(character.isprintable() for character in page.replace("\n", ""))
