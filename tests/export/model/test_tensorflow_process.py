import logging
import pickle
import types
import warnings

import keras
import pytest

from keras_norm.export.errors import RunnerError, UnsafeOpError, UnsupportedOpError
from keras_norm.export.model import tensorflow_process
from keras_norm.export.model.tensorflow_process import load_trained, portable_error


class AwkwardError(Exception):
    """Pickle cannot read it: the constructor has two arguments, and `args` has one."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@pytest.mark.parametrize(
    "error",
    [ValueError("text"), FileExistsError("a file"), UnsupportedOpError("text", {"Op": ["node"]})],
    ids=repr,
)
def test_errors_keep_their_type_message_and_attributes(error):
    assert portable_error(error) is error


@pytest.mark.parametrize("error", [AwkwardError("text", 3), UnsafeOpError("text", {})], ids=repr)
def test_an_error_that_pickle_cannot_read_keeps_its_name_and_message(error):
    found = portable_error(error)
    assert type(found) is RuntimeError
    assert str(found) == f"{type(error).__name__}: text"


ON_JAX = "jax", lambda *_: None


def test_a_module_that_cannot_be_imported_is_named():
    with pytest.raises(ValueError, match="cannot import no_such_module:Layer: No module named"):
        load_trained("m.keras", "m", {"Layer": "no_such_module:Layer"}, *ON_JAX)


def test_a_model_that_tensorflow_cannot_load_is_refused(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"cannot be loaded on TensorFlow: .* must use keras.ops"):
        load_trained(str(tmp_path / "m.keras"), "m", {}, *ON_JAX)


def test_runner_errors_keep_the_output_of_their_worker():
    assert portable_error(RunnerError("text", "detail")).detail == "detail"


def report():
    """Log two records, and warn."""
    logger = logging.getLogger("keras_norm.export")
    logger.warning("left out")
    logger.error("text %d", 1)
    warnings.warn("careful", UserWarning, stacklevel=1)
    return keras.config.epsilon()


def test_the_settings_of_the_parent_hold_and_records_and_warnings_are_sent(monkeypatch):
    sent, logger, epsilon = [], logging.getLogger("keras_norm"), keras.config.epsilon()
    parent = types.SimpleNamespace(notify=lambda name, *content: sent.append((name, content)))
    monkeypatch.setattr(tensorflow_process, "parent", parent, raising=False)
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])
    call = pickle.dumps((report.__module__, "report", (), {}))
    level = logger.level
    try:
        with warnings.catch_warnings():
            run = tensorflow_process.TensorFlowFunctions().run
            assert run({"epsilon": 1e-5}, logging.ERROR, call) == 1e-5
    finally:
        logger.setLevel(level)
        keras.config.set_epsilon(epsilon)
    (_, (record,)), (_, (text, category, *_)) = sent
    assert (record.name, record.getMessage()) == ("keras_norm.export", "text 1")
    assert (text, category) == ("careful", UserWarning)
