"""What all tests share."""

import pytest

from keras_norm.export import worker_process
from tests import forked_workers


@pytest.fixture(scope="session", autouse=True)
def forked():
    """Workers need not import TensorFlow each for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "start", forked_workers.start)
        yield
    forked_workers.stop()
