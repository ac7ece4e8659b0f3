"""The metric of an output, and the predictions that change, over batches of any size."""

import numpy as np
import pytest

from keras_norm.export.compare.labels import read_labels
from keras_norm.export.compare.prediction_changes import PredictionChanges

SCORES = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]], "float32")


def compare(before, after, labels=None):
    """Compare all rows in one batch, and each row in a batch; return the equal results."""
    if labels is not None:
        labels = read_labels({"y": np.asarray(labels)}, {"y": before})["y"]
    whole, by_row = PredictionChanges("y"), PredictionChanges("y")
    whole.add(before, after, labels, range(len(before)))
    for k in range(len(before)):
        row = slice(k, k + 1)
        by_row.add(before[row], after[row], None if labels is None else labels[row], [k])
    found, expected = by_row.result(), whole.result()
    assert by_row.are_classes == whole.are_classes
    values = ([x.mean, *(m.value for m in x.metrics or ())] for x in (found, expected))
    assert next(values) == pytest.approx(next(values))
    names = ("classes", "predictions", "changed", "fixed", "broken", "largest", "class_changes")
    for name in (*names, "largest_changes"):
        assert repr(getattr(found, name)) == repr(getattr(expected, name))  # NaN is not NaN
    return whole


TWICE = np.stack([SCORES, SCORES])
PROBABILITY = np.array([[0.6], [0.4], [0.7]])
LOGIT = np.array([[0.3], [-2.0], [4.0]])
PADDED = np.array([[1, 0, 1, 1], [0, 1, 0, 1]])
NUMBERS = np.array([[1.0], [4.0]])


@pytest.mark.parametrize(
    ("labels", "output", "accuracy"),
    [
        ([0, 1, 2, 1], SCORES, 3 / 4),
        ([[0, 1, 2, 1], [1, -1, -1, -1]], TWICE, 3 / 5),
        ([1, 0, 0], PROBABILITY, 2 / 3),
        ([1, 0, 1], LOGIT, 1.0),
        ([0, 1, 2, 2], np.arange(4), 3 / 4),
        ([[0, 1], [3, 2]], np.arange(4).reshape(2, 2), 1 / 2),
        ([1, 0, 1, 1], np.array([True, False, True, False]), 3 / 4),
        *(
            ([[1, 0, 0, -1], [0, 1, -1, -1]], output.astype(dtype), 4 / 5)
            for dtype in ("float32", "int32", "bool")
            for output in (PADDED, PADDED[..., None])
        ),
    ],
)
def test_integer_labels_have_an_accuracy(labels, output, accuracy):
    for metric in compare(output, output, labels).result().metrics:
        assert (metric.name, metric.value) == ("accuracy", pytest.approx(accuracy))


@pytest.mark.parametrize(
    ("labels", "output", "error"),
    [([[1.0], [2.0]], NUMBERS, 2.0), ([1.0, 2.0], NUMBERS, 2.0), ([0.5, 1.5], np.arange(2), 0.25)],
)
def test_float_labels_have_a_squared_error(labels, output, error):
    for metric in compare(output, output, labels).result().metrics:
        assert (metric.name, metric.value) == ("mean squared error", error)


def test_the_metric_after_a_change_is_that_of_the_new_output():
    found = compare(SCORES, SCORES[:, ::-1], [0, 1, 2, 1]).result()
    assert [metric.value for metric in found.metrics] == [0.75, 0.25]
    assert (found.fixed, found.broken) == (0, 2)
    error = compare(NUMBERS, NUMBERS + 1.0, [1.0, 2.0]).result()
    assert [metric.value for metric in error.metrics] == [2.0, 5.0]


LOGITS = np.array([[3.0, -1.0], [0.5, 2.0]], "float32")
UNIT = np.array([[0.9], [0.2], [0.6]], "float32")
ABOVE_ONE = np.array([[0.0], [0.53], [3.0]], "float32")  # no probabilities, as the last row shows


CHANGES = {
    "softmax": (SCORES, SCORES[:, ::-1], None, 4, 3),
    "softmax in float16": (SCORES.astype("float16"), SCORES, None, 4, 0),
    "logits": (LOGITS, LOGITS[::-1], None, None, None),
    "logits with labels": (LOGITS, LOGITS[::-1], [0, 1], 2, 2),
    "padding": (LOGITS, LOGITS[::-1], [0, -1], 1, 1),
    "multiple labels": (LOGITS, LOGITS[::-1], [[0, 1], [1, 1]], 4, 2),
    "probability": (UNIT, 1.0 - UNIT, None, 3, 3),
    "probability below one half": (UNIT, 0.6 * UNIT, None, 3, 1),
    "number": (UNIT - 0.5, UNIT - 0.3, None, None, None),
    "binary logit with labels": (UNIT - 0.5, UNIT - 0.3, [1, 1, 1], 3, 0),
    "binary logit above one": (ABOVE_ONE, ABOVE_ONE - 0.06, [0, 1, 1], 3, 0),
    "binary logit that changes its sign": (UNIT - 0.5, UNIT, [1, 1, 1], 3, 1),
    "float labels": (UNIT, 1.0 - UNIT, [[0.5], [0.5], [0.5]], None, None),
    "softmax with float labels": (SCORES, SCORES[:, ::-1], SCORES, 4, 3),
    "several numbers with float labels": (LOGITS, LOGITS[::-1], LOGITS, None, None),
    "one number for each sample": (UNIT[:, 0] + 1.0, UNIT[:, 0], None, None, None),
    "integers": (np.arange(4), np.array([0, 1, 2, 5]), None, 4, 1),
    "booleans": (np.array([True, False]), np.array([True, True]), None, 2, 1),
}


@pytest.mark.parametrize(
    ("own", "output", "labels", "predictions", "changed"), CHANGES.values(), ids=CHANGES
)
def test_predictions_that_differ_from_the_keras_model_are_counted(
    own, output, labels, predictions, changed
):
    """None means that the outputs may be numbers."""
    found = compare(own, output, labels)
    assert found.are_classes == (predictions is not None)
    if predictions is not None:
        assert (found.result().predictions, found.result().changed) == (predictions, changed)


def test_several_numbers_with_float_labels_are_no_classes():
    assert not compare(LOGITS, LOGITS[::-1], LOGITS).result().classes


def test_pairs_of_classes_are_listed_the_most_frequent_first():
    found = compare(np.array([1, 0, 2, 1, 1]), np.array([0, 1, 0, 1, 0])).result()
    pairs = [(change.before, change.after, change.count) for change in found.class_changes]
    assert pairs == [(1, 0, 2), (0, 1, 1), (2, 0, 1)]


def test_values_that_are_not_finite_are_counted_and_have_no_difference():
    before = np.array([[1.0], [2.0], [np.inf], [4.0]])
    found = compare(before, np.array([[np.nan], [np.inf], [np.inf], [4.5]])).result()
    assert (found.lost, found.values, found.largest, found.mean) == (2, 4, 0.5, 0.125)
