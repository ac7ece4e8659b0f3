"""Leave out tests of features that an older Keras does not have."""

import importlib.metadata

import pytest

INSTALLED = tuple(map(int, importlib.metadata.version("keras").split(".")[:2]))


def needs_keras(major, minor, reason):
    """Return a mark that skips a test with an older version of Keras."""
    return pytest.mark.skipif(
        (major, minor) > INSTALLED, reason=f"needs Keras {major}.{minor}: {reason}"
    )


needs_renorm = needs_keras(3, 15, "BatchNormalization(renorm=True) of Keras")
