"""What all tests share."""

import contextlib
import gc
from unittest import mock

import keras
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from keras_norm.export.check import artifacts
from keras_norm.export.check import run_artifacts as running
from keras_norm.export.runtimes import worker_process
from tests import forked_workers, without_xla

# What is trained and compared there is what users have.
AS_USERS = (
    "tests.benchmarks",
    "tests.examples.test_digits",
    "tests.export.check.test_training_recurrence",
    "tests.export.model.test_reference",
    "tests.export.formats.saved_model.test_export_saved_model",
    "tests.fuzz",
    "tests.test_docs",
    "tests.test_keras_internals",
)

# These take longest in one piece, and begin first: none is left to one process at the end.
LONG = ("test_strategies", "test_docs", "test_all_runtimes", "test_backends", "test_interrupted")


def pytest_configure(config):
    """The processes of pytest-xdist inherit what forks workers."""
    stack = contextlib.ExitStack()
    stack.enter_context(forked_workers.forking())
    config.add_cleanup(stack.close)


def pytest_collection_modifyitems(items):
    """Begin with what takes longest."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Weights are random, and the same whichever tests ran before, in what fixtures build too.

    The kernels stay: to make them anew takes a fifth of the time, and only random operations with a
    state need it, of which Keras has none.
    """
    with mock.patch.object(pywrap_tfe, "TFE_ContextClearCaches"):
        keras.utils.set_random_seed(0)


@pytest.fixture(scope="session", autouse=True)
def forked():
    """Workers need not import TensorFlow each for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "start", forked_workers.start)
        yield


@pytest.fixture(scope="module", autouse=True)
def settled():
    """TensorFlow keeps the graphs that a module made: they are searched for garbage once."""
    gc.freeze()  # what the first module has found imported
    gc.set_threshold(10_000, 20, 1000)
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def graphs_as_traced(request):
    """Graphs run as they are traced: to optimize them takes a fifth of the time.

    Exported files have them optimized, in processes of their own.
    """
    optimized = request.module.__name__.startswith(AS_USERS)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimized})


@pytest.fixture(scope="module", autouse=True)
def loops_as_traced(request):
    """Nor does XLA compile in studies; the tests of the recurrences choose for themselves.

    In a check an error of the stand-in would be a finding, and no failure: it has XLA.
    """
    if request.module.__name__.startswith(("tests.experiments", "tests.test_recalibrate")):
        with pytest.MonkeyPatch.context() as patch:
            without_xla.trace(patch)
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def second_opinion(monkeypatch):
    """Keep checks fast, and the same whatever else is installed to run files."""
    monkeypatch.setattr(artifacts, "is_installed", lambda extra: False)
    monkeypatch.setattr(running, "SECONDS", 0.0)  # each thread calls once
