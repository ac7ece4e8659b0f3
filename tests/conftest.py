"""Fixtures and hooks of all tests: seeds, forked workers, and graphs without optimization.

Only functions import TensorFlow: the process of pytest-xdist that collects no tests reads this
file too, and starts the others afterwards.
"""

import contextlib
import gc
import importlib.util
import pathlib
from unittest import mock

import pytest

from tests import fork_server
from tests.keras_version import INSTALLED

# The function that starts worker processes.
START = "keras_norm.export.runtimes.worker_process.start"

# Modules that run everything as users do: no fixture replaces a part of a package.
UNPATCHED = ("tests.test_train_and_serve",)

# Modules that test TensorFlow graphs as users run them, with the graph optimizer.
OPTIMIZED = (
    *UNPATCHED,
    "tests.benchmarks",
    "tests.examples.test_digits",
    "tests.export.model.test_reference",
    "tests.export.formats.saved_model.test_export_saved_model",
    "tests.fuzz",
    "tests.test_docs",
    "tests.test_keras_internals",
)

# Modules that do not compile recurrences.
WITHOUT_XLA = (
    "tests.conversion",
    "tests.examples.test_main",
    "tests.examples.test_denoise",
    "tests.test_docs",
    "tests.distributed.test_moving_statistics",
    "tests.experiments",
    "tests.recalibration",
    "tests.test_existing_files",
    "tests.test_packed_sequences",
    "tests.test_statistics_plot",
)

# Folders whose tests `make test` leaves out, as it leaves out each test with the marker "slow".
SLOW_FOLDERS = [
    pathlib.Path(__file__).with_name(name)
    for name in ("benchmarks", "compat", "distributed", "examples", "experiments", "fuzz")
]

# Found before a test replaces `find_spec`.
HAS_ONNX = importlib.util.find_spec("onnx") is not None

# The slowest modules. They run first, so that no process works alone at the end.
FIRST = (
    "test_train_and_serve",
    "test_moving_statistics",
    "test_distributed",
    "test_jax",
    "test_docs",
    "test_all_runtimes",
    "test_backends",
    "test_interrupted",
)


def pytest_configure(config):
    """Start the server that forks workers; the processes of pytest-xdist inherit its address."""
    stack = contextlib.ExitStack()
    stack.enter_context(fork_server.forking())
    config.add_cleanup(stack.close)
    if INSTALLED < (3, 13):
        # An older Keras warns of one tensor as the inputs of a loaded Sequential model.
        config.addinivalue_line("filterwarnings", "ignore:The structure of `inputs`:UserWarning")


def pytest_ignore_collect(collection_path, config):
    """Import no module of the slow folders for `make test`."""
    if config.option.markexpr == "not slow" and collection_path in SLOW_FOLDERS:
        return True
    return None


def pytest_collection_modifyitems(items):
    """Run the slowest modules first, and mark all tests of slow folders."""
    items.sort(key=lambda item: item.path.stem not in FIRST)
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)


def _skip_unsupported():
    """Skip a test that the lowest supported versions cannot run (`make test-versions`).

    No onnx fits the lowest TensorFlow, and Keras 3.10 itself cannot run a model that concatenates a
    masked and an unmasked input.
    """
    try:
        return (yield)
    except Exception as error:
        if "ONNX files need" in str(error) and not HAS_ONNX:
            pytest.skip(str(error))
        if "BroadcastTo.call()" in str(error) and INSTALLED < (3, 13):
            pytest.skip("Keras 3.10 cannot concatenate masked and unmasked inputs")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """Run a test function, or skip it."""
    return (yield from _skip_unsupported())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    """Set the random seed before each test and its fixtures, so that the order does not matter."""
    import keras

    keras.utils.set_random_seed(0)
    return (yield from _skip_unsupported())


@pytest.fixture(scope="session", autouse=True)
def cached_kernels():
    """Keep TensorFlow's cache of kernels: to build the kernels again takes a fifth of the time.

    `set_random_seed` clears the cache for stateful random operations; Keras has none.
    """
    with mock.patch("tensorflow.python.pywrap_tfe.TFE_ContextClearCaches"):
        yield


@pytest.fixture(scope="session", autouse=True)
def forked():
    """Fork worker processes from a process that has imported TensorFlow."""
    from tests import forked_workers

    with mock.patch(START, forked_workers.start):
        yield


@pytest.fixture(scope="module", autouse=True)
def frozen_objects():
    """Let garbage collection skip old objects, because TensorFlow keeps the graphs of a module."""
    gc.freeze()  # the imported modules
    gc.set_threshold(10_000, 20, 1000)
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def unoptimized_graphs(request):
    """Switch TensorFlow's graph optimizer off outside `OPTIMIZED`: it takes a fifth of the time.

    Exported files run in other processes, with the optimizer.
    """
    import tensorflow as tf

    optimized = request.module.__name__.startswith(OPTIMIZED)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimized})


@pytest.fixture(scope="module", autouse=True)
def uncompiled_loops(request):
    """Run recurrences without XLA in the tests of studies, examples, conversions and statistics.

    The tests of recurrences choose for themselves. The tests of `check` use XLA, because `check`
    would report an error of the substitute as a finding, and the test would pass.
    """
    from tests import without_xla

    if request.module.__name__.startswith(WITHOUT_XLA):
        with pytest.MonkeyPatch.context() as patch:
            without_xla.trace(patch)
            yield
    else:
        yield


@pytest.fixture(scope="module", autouse=True)
def started(request):
    """Start worker processes in `UNPATCHED` modules, in place of forking them."""
    from tests import forked_workers

    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in UNPATCHED:
            patch.setattr(START, forked_workers.start_process)
        yield


@pytest.fixture(autouse=True)
def optional_runtimes(request, monkeypatch):
    """Run checks without optional runtimes, so that the results do not depend on the machine."""
    if request.module.__name__ in UNPATCHED:
        return
    installed = "keras_norm.export.formats.artifact_format.is_installed"
    monkeypatch.setattr(installed, lambda extra: False)
    seconds = "keras_norm.export.checks.properties.concurrency.SECONDS"
    monkeypatch.setattr(seconds, 0.0)  # each thread runs the file once
