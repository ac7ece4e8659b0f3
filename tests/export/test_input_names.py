"""Names of inputs in exported files, and in the data that users give."""

import pytest

from keras_norm.export.input_names import with_file_names

NAMES = ("Text_in", "x_y", "input")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["Text in", "x.y", "keras_tensor_7"], ["Text_in", "x_y", "input"]),
        (["Text_in", "x_y", "input_layer"], ["Text_in", "x_y", "input"]),
        (["Text-out", "x y", "x.y"], ["Text-out", "x_y", "x.y"]),  # two names of one input
        (["Text in", "Text_in"], ["Text in", "Text_in"]),
        ([3], [3]),
    ],
)
def test_names_in_keras_are_replaced_by_names_in_files(given, expected):
    assert list(with_file_names(dict.fromkeys(given), NAMES)) == expected
