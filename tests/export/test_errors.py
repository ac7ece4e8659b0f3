import pytest

from keras_norm.export.errors import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n  first \nsecond", "first"),
        ("{{function_node f}} no such file [Op:RestoreV2]", "no such file"),
        ("", "ValueError"),
        ("{{node x}}", "ValueError"),
    ],
)
def test_an_error_is_one_line_without_the_names_of_tensorflows_nodes(text, shown):
    assert one_line(ValueError(text)) == shown
