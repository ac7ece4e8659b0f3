"""Draw the moving statistics of recurrent batch normalization over the timesteps."""

from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_norm.named_layers import batch_norms, is_batch_norm
from keras_norm.new_figure import COLORS, label_of, new_figure
from keras_norm.ops.to_numpy import to_numpy
from keras_norm.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The plot has a colored band from the 10th to the 90th percentile of the features.
BAND = (10, 90)


def plot_statistics(model: keras.Layer) -> "Figure":
    """Draw the moving mean and variance of each timestep, for layers with per-timestep statistics.

    One row of the figure shows one `TimestepBatchNormalization`, such as a norm of a
    `BatchNormLSTM`. The line is the median over the features. The band contains 80 % of the
    features. A dashed line marks the last row that training updated. Inference uses this row at
    later timesteps. Rows without an update are not drawn.

    Use the figure to choose `max_timesteps`: the statistics of the last timesteps should be nearly
    constant.

    Args:
        model: a model or layer that was trained or recalibrated.

    Returns:
        A figure of Matplotlib. A notebook shows it; `figure.savefig("statistics.png")` writes it.

    Raises:
        TypeError: `model` is neither a model nor a layer.
        ValueError: no layer has statistics of each timestep, or no row was updated.
        ImportError: Matplotlib is not installed.

    Example:
        >>> layer = BatchNormLSTM(4, max_timesteps=10)
        >>> _ = layer(np.random.default_rng(0).normal(size=(32, 10, 3)), training=True)
        >>> figure = plot_statistics(layer)
        >>> [axes.get_ylabel() for axes in figure.axes[:2]]
        ['moving mean', 'moving variance']

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, section 3.
    """
    if not isinstance(model, keras.layers.Layer):
        raise TypeError(f"model must be a Keras model or layer. Received: {model!r}.")
    norms = [(model.name, model)] if is_batch_norm(model) else batch_norms(model)
    norms = [(path, norm) for path, norm in norms if len(norm.moving_mean.shape) == 2]
    if not norms:
        raise ValueError(
            f"{model.name!r} has no layer with statistics of each timestep, such as "
            "TimestepBatchNormalization or BatchNormLSTM. Give a model with such a layer."
        )
    updated = {path: _array(norm.update_count) > 0 for path, norm in norms}
    if not any(rows.any() for rows in updated.values()):
        raise ValueError(
            f"The moving statistics of {model.name!r} were never updated. Train the model, or "
            "call keras_norm.recalibrate."
        )
    figure, axes = new_figure(len(norms), 2, 1.9)
    for (path, norm), row in zip(norms, axes, strict=True):
        rows = updated[path]
        title = f"{path}: {rows.sum()} of {len(rows)} rows updated"
        row[0].set_title(label_of(title), loc="left", fontsize="medium")
        for each, name in zip(row, ("moving mean", "moving variance"), strict=True):
            _draw(each, _array(getattr(norm, name.replace(" ", "_"))), rows)
            each.set_ylabel(name)
            each.set_xlim(-0.5, len(rows) - 0.5)
            each.locator_params(axis="x", integer=True, min_n_ticks=1)
        row[1].set_ylim(bottom=0.0)
    for each in axes[-1]:
        each.set_xlabel("timestep")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw(axes: "Axes", values: Array, rows: Array) -> None:
    """Draw, at each updated timestep, the median of the features and a band of percentiles."""
    timesteps = np.arange(len(values))
    low, middle, high = (
        np.where(rows, np.percentile(values, share, axis=1), np.nan)
        for share in (BAND[0], 50, BAND[1])
    )
    share = f"{BAND[1] - BAND[0]} % of the features"
    axes.fill_between(timesteps, low, high, color=COLORS[0], alpha=0.25, linewidth=0, label=share)
    # A line cannot show a single updated timestep between timesteps without updates; a marker can.
    axes.plot(timesteps, middle, color=COLORS[0], marker=".", markersize=4, label="median")
    if rows.any():
        last = int(np.flatnonzero(rows)[-1])
        axes.axvline(last, color="0.4", linestyle="--", linewidth=1, label="last updated row")


def _array(variable: keras.Variable) -> Array:
    return to_numpy(variable).astype("float64")
