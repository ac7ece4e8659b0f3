"""SavedModels through TensorFlow's C API: what the other runner of them does not do."""

from keras_norm.export.runners import KerasRunner
from tests.export import models


def test_eight_threads_share_one_loaded_model(model, runners):
    cases = [models.tagger_data(batch, time) for batch, time in ((1, 4), (7, 9), (2, 1))]
    calls, lowest, highest = runners["c_api"].run_at_once(cases, threads=8, seconds=0.5)
    assert calls >= 8
    for case, low, high in zip(cases, lowest, highest, strict=True):
        models.assert_same(low, KerasRunner(model)(case))
        models.assert_same(high, KerasRunner(model)(case))
