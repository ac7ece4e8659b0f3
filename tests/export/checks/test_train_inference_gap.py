import keras
import numpy as np
import pytest
from keras import ops

import keras_norm
from keras_norm.export.results.gap_result import OutputGap, TrainInferenceGap
from tests.export.checks.gaps import (
    DATA,
    batch_statistics,
    measure_gap,
    model_of,
    set_statistics,
)


@pytest.mark.parametrize(
    "kind",
    [
        keras.layers.BatchNormalization,
        keras_norm.BatchNormalization,
        lambda name: keras_norm.BatchNormalization(name=name, momentum=None),
        lambda name: keras_norm.BatchNormalization(name=name, debias=True),
    ],
    ids=["keras", "ours", "cumulative", "debiased"],
)
def test_statistics_equal_to_the_batch_have_distance_zero(kind):
    model = model_of(kind(name="bn"))
    set_statistics(model.layers[0], *batch_statistics())
    (layer,) = measure_gap(model, DATA).layers
    assert layer.path == "bn"
    assert layer.distance == pytest.approx(0.0, abs=1e-5)
    assert layer.log_ratio == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_rounding_in_the_precision_of_the_model_is_not_a_gap(policy):
    gap = measure_gap(model_of(keras_norm.LayerNormSimpleRNN(16, dtype=policy)), DATA)
    assert (gap.verdict, gap.layers) == ("ok", ())


def test_the_distance_is_in_standard_deviations_and_the_variances_differ_by_a_factor():
    model = model_of(keras.layers.BatchNormalization(epsilon=0.0))
    mean, variance = batch_statistics()
    set_statistics(model.layers[0], mean + 6.0 * np.sqrt(variance), 9.0 * variance)
    (layer,) = measure_gap(model, DATA).layers
    assert layer.distance == pytest.approx(2.0, rel=1e-4)
    assert layer.factor == pytest.approx(9.0, rel=1e-3)


def test_an_untrained_batch_norm_has_a_large_gap_and_a_note_until_it_is_trained():
    model = model_of(keras.layers.BatchNormalization(momentum=0.0))
    gap = measure_gap(model, DATA)
    (layer,) = gap.layers
    assert gap.verdict == "large"
    assert "initial values" in layer.note
    assert (layer.updates, layer.initial_share) == (None, None)  # a Keras layer counts none
    model(DATA["x"], training=True)
    assert measure_gap(model, DATA).verdict == "ok"


def test_the_output_gap_is_the_difference_of_the_two_modes():
    model = model_of(keras.layers.BatchNormalization())
    inference = ops.convert_to_numpy(model(DATA["x"], training=False))
    (gap,) = measure_gap(model, DATA).outputs
    training = ops.convert_to_numpy(model(DATA["x"], training=True))
    assert gap.worst == pytest.approx(np.abs(training - inference).max(), rel=1e-5)
    assert gap.mean == pytest.approx(np.abs(training - inference).mean(), rel=1e-5)


def test_statistics_inside_cells_are_measured_row_by_row():
    model = model_of(keras_norm.BatchNormSimpleRNN(4, max_timesteps=8, name="rnn"))
    model(DATA["x"][:, :3], training=True)
    layers = {layer.path.split("/")[-1]: layer for layer in measure_gap(model, DATA).layers}
    assert set(layers) == {"kernel_norm", "recurrent_norm"}
    kernel = layers["kernel_norm"]
    assert (kernel.trained_rows, kernel.data_rows) == (3, 5)
    assert [row is None for row in kernel.by_row] == [False] * 3 + [True] * 5
    assert "2 timesteps that no training sequence had" in kernel.note


def test_rows_trained_on_the_data_have_no_distance_and_count_their_updates():
    model = model_of(keras_norm.BatchNormSimpleRNN(4, max_timesteps=6))
    model(DATA["x"], training=True)
    for layer in measure_gap(model, DATA).layers:
        assert layer.distance == pytest.approx(0.0, abs=1e-4)
    model(DATA["x"][:, :2], training=True)
    kernel = measure_gap(model, DATA).layers[0]
    assert kernel.updates == (2, 2, 1, 1, 1, 0)
    assert kernel.initial_share == 0.0  # debiased


def test_the_weight_of_the_initial_values_is_reported():
    layer = keras_norm.TimestepBatchNormalization(5, momentum=0.9, debias=False)
    model = model_of(layer)
    model(DATA["x"], training=True)
    (statistics,) = measure_gap(model, DATA).layers
    assert statistics.initial_share == pytest.approx(0.9)


def test_the_metric_is_measured_in_both_modes():
    model = model_of(keras.layers.BatchNormalization(), keras.layers.Dense(1, name="y"))
    gap = measure_gap(model, DATA, labels={"y": np.zeros((16, 5))})
    squared = [float(np.mean(model(DATA["x"], training=t).numpy() ** 2)) for t in (False, True)]
    (metric,) = gap.metrics
    assert (metric.inference, metric.training) == pytest.approx(tuple(squared), rel=1e-5)


def test_a_layer_inside_a_nested_model_is_measured():
    inner = keras.Sequential([keras.Input((None, 3)), keras.layers.BatchNormalization(name="bn")])
    inner.name = "inner"
    assert [layer.path for layer in measure_gap(model_of(inner), DATA).layers] == ["inner/bn"]


@pytest.mark.parametrize(("worst", "passed"), [(0.49, True), (0.51, False), (np.nan, False)])
def test_a_gap_passes_below_max_gap_and_a_gap_of_nan_never(worst, passed):
    gaps = (OutputGap("a", 0.1, 0.1, 1.0), OutputGap("b", worst, 0.1, 1.0))
    assert TrainInferenceGap("ok", "", gaps, max_gap=0.5).passed == passed


def batches_of(*sizes):
    ends = np.cumsum(sizes)
    return [{"x": DATA["x"][end - n : end]} for end, n in zip(ends, sizes, strict=True)]


def test_statistics_over_batches_are_the_statistics_of_all_samples():
    model = model_of(keras_norm.BatchNormSimpleRNN(4, max_timesteps=8), keras.layers.Dense(2))
    model(2.0 * DATA["x"][:, :3], training=True)
    whole, parts = measure_gap(model, DATA), measure_gap(model, *batches_of(4, 8, 4))
    kernel, of_parts = whole.layers[0], parts.layers[0]  # reads no other batch statistics
    assert of_parts.distance == pytest.approx(kernel.distance, rel=1e-4)
    assert of_parts.log_ratio == pytest.approx(kernel.log_ratio, rel=1e-4)
    assert (of_parts.trained_rows, of_parts.data_rows) == (3, 5)


@keras.saving.register_keras_serializable(package="tests")
class Drifting(keras.layers.Layer):
    """Adds an offset, which training mode changes."""

    def build(self, shape):
        self.offset = self.add_weight(name="offset", initializer="zeros", trainable=False)

    def call(self, x, training=False):
        if training:
            self.offset.assign_add(1.0)
        return x + self.offset


@pytest.mark.parametrize("layer", [keras.layers.BatchNormalization, Drifting])
def test_the_gap_over_batches_is_the_largest_gap_of_a_batch(layer):
    model, batches = model_of(layer()), batches_of(8, 8)
    each = [measure_gap(model, batch).outputs[0] for batch in batches]
    for order in (batches, batches[::-1]):
        (both,) = measure_gap(model, *order).outputs
        assert both.worst == max(gap.worst for gap in each)
        assert both.scale == max(gap.scale for gap in each)
        assert both.mean == pytest.approx(np.mean([gap.mean for gap in each]))


def test_a_small_last_batch_counts_only_in_the_statistics():
    model = model_of(keras.layers.BatchNormalization())
    first, last = batches_of(14, 2)
    gap = measure_gap(model, first, last)
    assert gap.outputs == measure_gap(model, first).outputs
    assert gap.layers[0].distance == pytest.approx(measure_gap(model, DATA).layers[0].distance)


def test_masked_positions_are_excluded_from_the_statistics():
    model = model_of(keras.layers.Masking(), keras_norm.BatchNormalization())
    padded = DATA["x"].copy()
    padded[:8, 1:] = 0.0
    whole = measure_gap(model, {"x": padded}).layers[0]
    halves = measure_gap(model, {"x": padded[:8]}, {"x": padded[8:]}).layers[0]
    assert halves.distance == pytest.approx(whole.distance, rel=1e-4)


def test_a_mode_with_nan_is_not_measured():
    x = keras.Input((None, 3), name="x")
    gap = measure_gap(keras.Model(x, keras.ops.log(keras.ops.minimum(x, -1.0))), DATA)
    assert gap.verdict == "not measured"
    assert "NaN" in gap.reason


def test_a_slot_that_is_frozen_has_no_gap():
    x = keras.Input((None, 3), name="x")
    layer = keras_norm.BatchNormSimpleRNN(4, max_timesteps=5)
    model = keras.Model(x, layer(x))
    layer.cell.kernel_norm.trainable = layer.cell.recurrent_norm.trainable = False
    gap = measure_gap(model, DATA)
    assert gap.worst == pytest.approx(0.0, abs=1e-6)
    assert [norm.distance for norm in gap.layers] == [None, None]
    assert gap.verdict == "ok"
    assert "frozen" in gap.reason


def test_equal_infinities_are_not_a_difference():
    x = keras.Input((None, 3), name="x")
    masked = keras.ops.where(x > 0, x, -np.inf)
    model = keras.Model(x, [masked, keras.layers.BatchNormalization()(x)])
    gap = measure_gap(model, {"x": DATA["x"] + 9.0})
    assert gap.verdict == "large"
