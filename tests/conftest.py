"""What all tests share."""

import gc
import pathlib

import keras
import pytest
import tensorflow as tf

from keras_norm.export.checking import artifacts
from keras_norm.export.runners import worker_process
from tests import forked_workers


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Weights are random, and the same whichever tests ran before, in what fixtures build too."""
    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session", autouse=True)
def forked():
    """Workers need not import TensorFlow each for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "start", forked_workers.start)
        yield
    forked_workers.stop()


@pytest.fixture(scope="module", autouse=True)
def settled():
    """TensorFlow keeps the graphs that a module made: they are searched for garbage once."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def graphs_as_traced(request):
    """Graphs that test maths run as they are traced: to optimize them takes a fifth of the time.

    Exports, examples and the demo have them optimized, as users do.
    """
    folder = request.path.relative_to(pathlib.Path(__file__).parent).parts[0]
    options = {"disable_meta_optimizer": folder in ("experiments", "layers", "ops", "rnn")}
    tf.config.optimizer.set_experimental_options(options)


@pytest.fixture(autouse=True)
def second_opinion(monkeypatch):
    """Keep checks fast, and the same whether or not OpenVINO is installed."""
    monkeypatch.setattr(artifacts, "openvino_is_installed", lambda: False)
