"""What a model normalizes, and how: one entry for every normalization layer."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from keras import ops
from rich.text import Text

from keras_norm.export import signature
from keras_norm.export.checking.gap import moving_statistics
from keras_norm.export.report.terminal import add_row, breakable, new_table
from keras_norm.walk import is_batch_norm, named_layers


@dataclasses.dataclass(frozen=True)
class NormalizationSummary:
    """One normalization layer.

    Attributes:
        path: where it stands in the model.
        kind: name of its class.
        over: what its statistics are taken over: the batch, or axes.
        epsilon: number added to the variance, None for a layer without one.
        statistics: how far its moving statistics have been trained; "" for a layer without any.
    """

    path: str
    kind: str
    over: str
    epsilon: float | None
    statistics: str


def summarize(model: Any) -> tuple[NormalizationSummary, ...]:
    """Describe every normalization layer of a model, also those inside recurrent cells.

    Args:
        model: a built Keras model.
    """
    return tuple(
        NormalizationSummary(
            path=path,
            kind=type(layer).__name__,
            over=_over(layer),
            epsilon=getattr(layer, "epsilon", None),
            statistics=_statistics(layer) if is_batch_norm(layer) else "",
        )
        for path, layer in named_layers(model)
        if any(c.__name__.endswith("Normalization") for c in type(layer).__mro__)
    )


def summary_tables(model: Any) -> Iterator[Any]:
    """What `keras-norm inspect` prints: inputs, outputs, normalization layers.

    Args:
        model: a functional or Sequential model.

    Yields:
        Things that rich can print.
    """
    yield Text(f"Model {model.name}, {model.count_params():,} parameters")
    tensors = new_table("Inputs and outputs")
    for column in ("", "name", "shape", "dtype"):
        tensors.add_column(column, overflow="fold")
    for spec in signature.input_specs(model).values():
        add_row(tensors, "input", spec.name, _shape(spec.shape), spec.dtype)
    for name, tensor in zip(signature.output_names(model), model.outputs, strict=True):
        add_row(tensors, "output", name, _shape(tensor.shape), str(tensor.dtype))
    yield tensors
    entries = summarize(model)
    if not entries:
        yield Text("No normalization layers.")
        return
    table = new_table("Normalization layers")
    table.add_column("layer, and its class", overflow="fold")
    for column, width in (("over", 7), ("epsilon", 7), ("moving statistics", 16)):
        table.add_column(column, overflow="fold", width=width)
    for entry in entries:
        epsilon = "-" if entry.epsilon is None else f"{entry.epsilon:g}"
        layer = Text.assemble(breakable(entry.path), "\n", (entry.kind, "dim"))
        add_row(table, layer, entry.over, epsilon, entry.statistics or "-")
    yield table


def _over(layer: Any) -> str:
    if is_batch_norm(layer):
        return "batch"
    axis = getattr(layer, "axis", None)
    if axis is None:
        return "-"
    axes = axis if isinstance(axis, list | tuple) else [axis]
    return f"axis {', '.join(str(a) for a in axes)}"


def _statistics(layer: Any) -> str:
    mean, _, reached = moving_statistics(layer)
    rows, features = mean.shape
    size = f"{features} features"
    if not reached.any():
        return f"{size}, still at their start"
    count = getattr(layer, "update_count", None)
    if count is None:
        return f"{size}, trained"
    updates = f"{size}, updates: {int(ops.max(count))}"
    return updates if rows == 1 else f"{updates}, timesteps: {int(reached.sum())}/{rows}"


def _shape(shape: Any) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
