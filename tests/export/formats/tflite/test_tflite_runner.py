import pytest

from keras_norm.export import RunnerError
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner


def test_a_truncated_file_raises_one_line(exported, tmp_path):
    content = exported["tflite"].read_bytes()
    (tmp_path / "half.tflite").write_bytes(content[: len(content) // 2])
    with pytest.raises(RunnerError, match=r"^TFLite .*half.tflite: [^\n]+$"):
        TFLiteRunner(tmp_path / "half.tflite")
