"""What a process of a group refuses, with simulated groups; `test_processes` runs real groups."""

import types

import keras
import pytest

import keras_norm
from keras_norm.recalibration import process_group, recalibrate
from tests.recalibration.models import X, assert_has_statistics_of, assert_refused, model_of


@pytest.fixture
def model():
    return model_of(keras_norm.BatchNormalization())


def test_a_group_that_lost_a_process_is_reported_in_one_line(model, monkeypatch):
    def fail(*args):
        raise ConnectionError("Connection closed by peer [127.0.0.1]:1\nException raised from")

    monkeypatch.setattr(process_group, f"_gather_with_{keras.backend.backend()}", fail)
    message = (
        r"a process has ended.*: Connection closed by peer \[127.0.0.1\]:1\. Restart.*changed\.$"
    )
    assert_refused(model, X, message, error=RuntimeError)


@pytest.mark.parametrize(
    ("begin", "other", "message"),
    [
        (b"+", b"-the disk is gone", "Process 1 could not collect .* the disk is gone$"),
        (b"+", b"+PK", r"statistics of process 1 is not a file of statistics"),
        (b"False", b"True", "different values of layer_by_layer.* this process: .*=False"),
    ],
    ids=["failed", "damaged", "layer by layer"],
)
def test_the_bytes_of_another_process_may_be_refused(model, monkeypatch, begin, other, message):
    """The other process sends other bytes than this process, if these have the given begin."""

    def gather(_, own):
        return [own, other if own.startswith(begin) else own]

    monkeypatch.setattr(recalibrate, "gather_bytes", gather)
    assert_refused(model, X, message)


def test_processes_meet_before_they_read_the_data(model, monkeypatch):
    """JAX connects them within 30 seconds, and one process may read longer than another."""
    met = []

    def gather(_, own):
        met.append(own)
        return [own]

    def batches():
        assert met == [b"False"]
        yield X

    monkeypatch.setattr(recalibrate, "gather_bytes", gather)
    assert keras_norm.recalibrate(model, batches()) == 1


def test_a_distribution_does_not_create_the_clone_and_is_restored_after_an_error(model):
    keras.distribution.set_distribution(distribution := object())
    try:
        assert_refused(model, [1.0], "batch 1: x of shape")
        assert keras.distribution.distribution() is distribution
        keras_norm.recalibrate(model, X)
    finally:
        keras.distribution.set_distribution(None)
    assert_has_statistics_of(model.layers[-1], X)


def test_weights_that_are_spread_over_processes_are_refused():
    """Keras' ModelParallel creates such arrays of JAX on several processes."""
    value = types.SimpleNamespace(is_fully_replicated=False, is_fully_addressable=False)
    weight = types.SimpleNamespace(path="dense/kernel", value=value)
    with pytest.raises(ValueError, match=r"'dense/kernel' is spread over several processes\. Save"):
        process_group.require_whole_weights(types.SimpleNamespace(weights=[weight]))
