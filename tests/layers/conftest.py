"""A fixture that runs batch normalization with and without the fused kernel."""

import math

import pytest

from keras_norm.ops import kernels


@pytest.fixture(params=["composed", "fused"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compute batch normalization by operations, or by the fused kernel at every size."""
    monkeypatch.setattr(kernels, "LARGE", 0 if request.param == "fused" else math.inf)
    return request.param
