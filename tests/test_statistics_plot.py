"""The picture of moving statistics over timesteps, and figures, which need Matplotlib."""

import sys

import keras
import matplotlib.pyplot as plt
import numpy as np
import pytest

import keras_norm
from keras_norm import plot_statistics
from keras_norm.new_figure import label_of, new_figure


@pytest.fixture(scope="module")
def layer():
    """A layer that was trained on sequences of 4 timesteps; it has 6 rows."""
    layer = keras_norm.BatchNormLSTM(5, max_timesteps=6, compiled=False)
    x = np.random.default_rng(0).normal(2.0, 3.0, (32, 4, 7)).astype("float32")
    layer(x, training=True)
    return layer


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_each_slot_has_an_axes_of_means_and_an_axes_of_variances(layer):
    axes = plot_statistics(layer).axes
    assert [each.get_ylabel() for each in axes] == ["moving mean", "moving variance"] * 3
    assert [each.get_xlabel() for each in axes[-2:]] == ["timestep"] * 2
    titles = [each.get_title("left") for each in axes[::2]]
    assert titles == [
        f"{layer.cell.name}/{slot}: 4 of 6 rows updated"
        for slot in ("kernel_norm", "recurrent_norm", "state_norm")
    ]


def test_the_line_is_the_median_and_the_band_contains_most_features(layer):
    axes = plot_statistics(layer).axes[1]
    variance = keras.ops.convert_to_numpy(layer.cell.kernel_norm.moving_variance)[:4]
    drawn = lines(axes)["median"].get_ydata()
    np.testing.assert_allclose(drawn[:4], np.median(variance, axis=1), rtol=1e-6)
    (band,) = axes.collections
    inside = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(inside.max(), np.percentile(variance, 90, axis=1).max(), rtol=1e-6)
    np.testing.assert_allclose(inside.min(), np.percentile(variance, 10, axis=1).min(), rtol=1e-6)


def test_rows_without_updates_are_not_drawn_and_the_last_updated_row_is_marked(layer):
    for axes in plot_statistics(layer).axes:
        assert np.isnan(lines(axes)["median"].get_ydata()).tolist() == [False] * 4 + [True] * 2
        assert lines(axes)["last updated row"].get_xdata() == [3, 3]


def test_a_model_shows_every_nested_layer_with_its_path(layer, tmp_path):
    x = keras.Input((None, 7))
    gru = keras_norm.BatchNormGRU(3, max_timesteps=4, name="gru", compiled=False)
    y = keras.layers.Bidirectional(gru)(x)
    model = keras.Model(x, keras.layers.BatchNormalization()(y))
    model(np.random.default_rng(0).normal(size=(8, 4, 7)), training=True)
    figure = plot_statistics(model)
    titles = [axes.get_title("left") for axes in figure.axes[::2]]
    assert len(titles) == 8
    assert all(("forward_gru" in t) != ("backward_gru" in t) for t in titles)
    figure.savefig(tmp_path / "statistics.png")


def test_a_single_normalization_layer_is_drawn_and_its_variables_do_not_change():
    layer = keras_norm.TimestepBatchNormalization(5, name="norm")
    layer(np.random.default_rng(0).normal(size=(8, 5, 2)), training=True)
    before = layer.get_weights()
    mean, _ = plot_statistics(layer).axes
    assert mean.get_title("left") == "norm: 5 of 5 rows updated"
    assert all(map(np.array_equal, before, layer.get_weights()))


WRONG = {
    "lstm": (ValueError, "'lstm' has no layer with statistics of each timestep"),
    "untrained": (ValueError, r"were never updated. Train the model, or call .*recalibrate"),
    None: (TypeError, "model must be a Keras model or layer. Rec.* None"),
    "model.keras": (TypeError, "model must be a Keras model or layer. Rec.* 'model.k"),
}


@pytest.mark.parametrize(("given", "error", "message"), [(k, *v) for k, v in WRONG.items()])
def test_an_object_without_statistics_raises(given, error, message):
    layers = keras_norm.LayerNormLSTM(5, name="lstm"), keras_norm.BatchNormLSTM(5, 6)
    for layer in layers:
        layer.build((None, 4, 7))
    named = dict(zip(("lstm", "untrained"), layers, strict=True))
    with pytest.raises(error, match=message):
        plot_statistics(named.get(given, given))


def test_pyplot_does_not_show_the_figure_a_second_time():
    figure, axes = new_figure(2, 3, 1.0)
    assert [len(row) for row in axes] == [3, 3]
    assert figure.axes == [each for row in axes for each in row]
    assert plt.get_fignums() == []


def test_a_missing_matplotlib_raises_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[plot\]"'):
        new_figure(1, 1, 1.0)


@pytest.mark.parametrize("name", ["_a", "a$b", "a"])
def test_a_label_is_neither_hidden_nor_a_formula(name):
    assert not label_of(name).startswith("_")
    assert label_of(name).replace(r"\$", "").count("$") == 0
