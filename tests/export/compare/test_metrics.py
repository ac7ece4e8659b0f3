import functools

import numpy as np
import pytest

from keras_norm.export.compare.merge import merge_results
from keras_norm.export.compare.metrics import count_equal, read_labels, tally

SCORES = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]], "float32")


def measured(labels, output):
    outputs = {"y": output}
    labels = read_labels({"y": np.asarray(labels)}, outputs, len(output))
    (found,) = tally(labels, outputs, outputs)
    return found.metric.name, found.metric.value


def test_the_class_is_the_index_of_the_largest_output():
    assert measured([0, 1, 2, 1], SCORES) == ("accuracy", 0.75)


def test_every_timestep_has_a_class_except_padding():
    output = np.stack([SCORES, SCORES])
    labels = [[0, 1, 2, 1], [1, -1, -1, -1]]
    assert measured(labels, output) == ("accuracy", pytest.approx(3 / 5))


def test_a_probability_above_one_half_is_class_1():
    assert measured([1, 0, 0], np.array([[0.6], [0.4], [0.7]])) == (
        "accuracy",
        pytest.approx(2 / 3),
    )


def test_a_logit_above_zero_is_class_1():
    assert measured([1, 0, 1], np.array([[0.3], [-2.0], [4.0]])) == ("accuracy", 1.0)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (2, 2)])
def test_integer_outputs_are_classes(shape):
    output = np.arange(4).reshape(shape)
    assert measured(np.arange(4).reshape(shape), output) == ("accuracy", 1.0)
    assert measured(np.array([0, 1, 3, 2]).reshape(shape), output) == ("accuracy", 0.5)


def test_integer_outputs_of_another_dtype_are_classes():
    (found,) = tally({"y": np.arange(4)}, {"y": np.arange(4.0)}, {"y": np.arange(4)})
    assert found.metric.value == 1.0


def test_boolean_outputs_are_classes():
    assert measured([1, 0, 1, 1], np.array([True, False, True, False])) == ("accuracy", 0.75)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_padding_has_no_class_with_one_output_per_timestep(dtype):
    output = np.array([[1, 0, 1, 1], [0, 1, 0, 1]], dtype)
    labels = [[1, 0, 0, -1], [0, 1, -1, -1]]
    assert measured(labels, output) == ("accuracy", pytest.approx(4 / 5))
    assert measured(labels, output[..., None]) == ("accuracy", pytest.approx(4 / 5))


def test_float_labels_have_a_squared_error():
    assert measured([[1.0], [2.0]], np.array([[1.0], [4.0]])) == ("mean squared error", 2.0)


def test_float_labels_may_leave_out_a_last_axis_of_one():
    assert measured([1.0, 2.0], np.array([[1.0], [4.0]])) == ("mean squared error", 2.0)


def test_integer_outputs_have_a_squared_error_from_float_labels():
    assert measured([0.5, 1.5], np.array([0, 1])) == ("mean squared error", 0.25)


def test_tallies_of_parts_add_up_to_the_tally_of_all_data():
    rng = np.random.default_rng(0)
    labels, output = rng.integers(-1, 2, (9, 1)), rng.normal(0.5, 0.4, (9, 1))
    (whole,) = tally({"y": labels}, {"y": output}, {"y": output})
    parts = [
        tally({"y": labels[rows]}, {"y": output[rows]}, {"y": output[rows]})[0]
        for rows in (slice(0, 2), slice(2, 7), slice(7, 9))
    ]
    assert functools.reduce(merge_results, parts) == whole
    assert (
        whole.metric.value
        == np.float32((output > 0)[labels >= 0].ravel() == labels[labels >= 0]).mean()
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"z": np.zeros(4)}, "must be names of outputs: 'y'. Received: 'z'"),
        (np.zeros(3, int), "one row for each of the 4 samples"),
        (np.zeros((4, 2), int), r"must have the shape \(4, 3\) or \(4,\)"),
        (np.zeros(4), r"must have the shape \(4, 3\). Received \(4,\)"),
        (np.array(["a"] * 4), "must be numbers"),
        (np.full((4, 3), np.nan), "must be finite"),
        (np.array([0, 1, 2, 3]), "must be classes below 3. Received: 3"),
    ],
)
def test_wrong_labels_raise(labels, message):
    with pytest.raises(ValueError, match=message):
        read_labels(labels, {"y": SCORES}, 4)


def test_integer_labels_of_a_regression_raise():
    message = "'y' must be 0 or 1, .*Received: 6. Give float labels for the mean squared error"
    with pytest.raises(ValueError, match=message):
        read_labels(np.array([0, 3, 6]), {"y": np.array([[0.1], [2.9], [6.2]])}, 3)


def test_labels_raise_if_no_output_has_a_row_for_each_sample():
    with pytest.raises(ValueError, match="The model has no such output"):
        read_labels(np.zeros(4), {}, 4)


def test_one_array_of_labels_raises_for_two_outputs():
    with pytest.raises(ValueError, match="2 outputs"):
        read_labels(np.zeros(4), {"y": SCORES, "z": SCORES}, 4)


LOGITS = np.array([[3.0, -1.0], [0.5, 2.0]], "float32")
UNIT = np.array([[0.9], [0.2], [0.6]], "float32")


@pytest.mark.parametrize(
    ("own", "output", "labels", "predictions", "changed"),
    [
        (SCORES, SCORES[:, ::-1], None, 4, 3),
        (SCORES.astype("float16"), SCORES, None, 4, 0),
        (LOGITS, LOGITS[::-1], None, None, None),
        (LOGITS, LOGITS[::-1], [0, 1], 2, 2),
        (LOGITS, LOGITS[::-1], [0, -1], 1, 1),
        (LOGITS, LOGITS[::-1], [[0, 1], [1, 1]], 4, 2),
        (UNIT, 1.0 - UNIT, None, 3, 3),
        (UNIT, 0.6 * UNIT, None, 3, 1),
        (UNIT - 0.5, UNIT - 0.3, None, None, None),
        (UNIT - 0.5, UNIT - 0.3, [1, 1, 1], 3, 0),
        (UNIT - 0.5, UNIT, [1, 1, 1], 3, 1),
        (UNIT, 1.0 - UNIT, [[0.5], [0.5], [0.5]], None, None),
        (np.arange(4), np.array([0, 1, 2, 5]), None, 4, 1),
        (np.array([True, False]), np.array([True, True]), None, 2, 1),
    ],
    ids=[
        "softmax",
        "softmax in float16",
        "logits",
        "logits with labels",
        "padding",
        "multiple labels",
        "probability",
        "probability below one half",
        "number",
        "binary logit with labels",
        "binary logit that changes its sign",
        "float labels",
        "integers",
        "booleans",
    ],
)
def test_predictions_that_differ_from_the_keras_model_are_counted(
    own, output, labels, predictions, changed
):
    """The counts are equal when each sample is counted separately; None means no predictions."""
    labels = {} if labels is None else {"y": np.asarray(labels)}

    def count(rows):
        parts = ({"y": y[rows]} for y in (output, own))
        return count_equal({n: y[rows] for n, y in labels.items()}, *parts)[0]

    rows = [slice(k, k + 1) for k in range(len(own))]
    for found in (count(slice(None)), functools.reduce(merge_results, map(count, rows))):
        if predictions is None:
            assert np.isnan(found.sum)
        else:
            assert (found.count, found.count - found.sum) == (predictions, changed)
