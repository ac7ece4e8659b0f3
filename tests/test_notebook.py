"""A notebook shows results as tables and pictures, and progress as one output that ends empty."""

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.slow

SETUP = """
import keras, keras_norm, numpy as np
from keras_norm import progress
from keras_norm.export import check, export_saved_model, open_runner
progress.DELAY = 0.0
x = np.random.default_rng(0).normal(size=(16, 5, 3)).astype("float32")
inputs = keras.Input((None, 3), name="rows")
model = keras.Model(inputs, keras_norm.BatchNormSimpleRNN(4, max_timesteps=5)(inputs))
path = export_saved_model(model, "served")
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Run a notebook; return the outputs of each cell, by its last line, without logs."""
    notebook = nbformat.v4.new_notebook()
    lines = ["keras_norm.recalibrate(model, x)", "report = check(model, path, x)", "report"]
    lines += ["report.plot()", "keras_norm.plot_statistics(model)", "open_runner(path)"]
    notebook.cells = [nbformat.v4.new_code_cell(line) for line in (SETUP, *lines)]
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    nbclient.NotebookClient(notebook, kernel_name="python3", resources=resources).execute()
    return {
        cell.source: [o for o in cell.outputs if o.output_type != "stream"]
        for cell in notebook.cells
    }


@pytest.mark.parametrize(
    "line", ["keras_norm.recalibrate(model, x)", "report = check(model, path, x)"]
)
def test_progress_is_one_output_that_is_empty_at_the_end(outputs, line):
    shown = [output for output in outputs[line] if output.output_type == "display_data"]
    assert [output.data for output in shown] == [{"text/plain": "", "text/html": ""}]


def test_a_report_is_shown_as_a_table(outputs):
    (result,) = outputs["report"]
    assert "<table" in result.data["text/html"]
    assert result.data["text/plain"].startswith("<Report of ")


@pytest.mark.parametrize("line", ["report.plot()", "keras_norm.plot_statistics(model)"])
def test_a_picture_is_shown_once(outputs, line):
    (result,) = outputs[line]
    assert "image/png" in result.data


def test_a_runner_is_shown_in_one_line(outputs):
    (result,) = outputs["open_runner(path)"]
    assert result.data["text/plain"].startswith("<SavedModel runner of ")
    assert "\n" not in result.data["text/plain"]
