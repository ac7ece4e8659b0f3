import pytest

from keras_norm.export.checking import artifacts


@pytest.fixture(autouse=True)
def second_opinion(monkeypatch):
    """Keep checks fast, and the same whether or not OpenVINO is installed."""
    monkeypatch.setattr(artifacts, "openvino_is_installed", lambda: False)
