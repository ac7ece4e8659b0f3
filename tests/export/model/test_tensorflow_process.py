import pytest

from keras_norm.export.errors import RunnerError, UnsafeOpError, UnsupportedOpError
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
