"""What the tests of layers share."""

import math

import pytest

from keras_norm.ops import kernels


@pytest.fixture(params=["composed", "fused"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Batch normalization of any size by operations, or by the kernel wherever there is one."""
    monkeypatch.setattr(kernels, "LARGE", 0 if request.param == "fused" else math.inf)
    return request.param
