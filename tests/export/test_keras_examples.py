"""The script behind the table of keras.io's models in docs/guides/keras_layers.md."""

import pytest

from docs.keras_examples import row, weather


@pytest.mark.slow
def test_a_published_model_is_exported_with_one_line_and_passes(tmp_path):
    name, *exports, verdict = row(weather, tmp_path).strip("| ").split(" | ")
    assert name == "Timeseries forecasting for weather prediction"
    assert exports == ["written", "written"]
    assert verdict.startswith("pass, ")
