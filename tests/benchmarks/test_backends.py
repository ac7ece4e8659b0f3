"""The table of the other backends has a row for each layer, relative to Keras' layer."""

from benchmarks import backends
from benchmarks.results import Measurement, Results
from benchmarks.settings import KERAS_GRU, KERAS_LSTM, LN_GRU, PREDICT, TRAINING


def test_a_gru_is_divided_by_the_gru_of_keras():
    times = dict.fromkeys((*backends.OURS, KERAS_LSTM), 2.0) | {LN_GRU: 3.0, KERAS_GRU: 2.0}
    found = Results({}, {"backend": "jax"}, ()).with_suite(
        "backend",
        [
            Measurement("backend", mode, shape, {n: [t] for n, t in times.items()}, first=times)
            for mode in (TRAINING, PREDICT)
            for shape in backends.SHAPES
        ],
    )
    rows = {row[0]: row[1:] for row in backends.table(found).rows}
    assert rows[LN_GRU] == ("1.50",) * 5  # four shapes in training, and the mean at inference
