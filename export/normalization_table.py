"""Make tables of a model's inputs, outputs and normalization layers, and name lost masks."""

from collections.abc import Iterator

import keras
from keras import ops

from keras_norm.export import signature
from keras_norm.export.checks.train_inference_gap import moving_statistics
from keras_norm.export.compare.samples import Samples
from keras_norm.export.input_sizes import measure_input_sizes
from keras_norm.export.model.masks import lost_masks
from keras_norm.export.report.tables import (
    Cell,
    Column,
    Paragraph,
    Row,
    Table,
    number_columns,
    paragraph,
)
from keras_norm.named_layers import is_batch_norm, named_layers
from keras_norm.typing import Shape

# The size of an input is the Euclidean norm of its features at one timestep. Messages call it
# "scale". `ADVICE` follows the table if the standard deviation of the sizes of all samples and
# timesteps, divided by their mean, is at least SPREAD. For independent normal features the quotient
# is about 1 / sqrt(2 * features): 0.25 for 8 features.
SPREAD = 0.3
ADVICE = (
    "{layer}: the inputs differ in scale, and the layer's {slot}, a {norm}, removes this "
    "difference. If the scale matters, pass norm_form='joint' to the layer, or put a Dense layer "
    "with tanh before it. "
    'Compare both changes with this model: see the guide "Inputs with few features, or whose '
    'scale matters".'
)


def summary_tables(
    model: keras.Model, samples: Samples | None = None
) -> Iterator[Paragraph | Table]:
    """Make the output of `keras-norm inspect`: inputs, outputs, lost masks, normalization layers.

    With samples of the model's inputs, a table shows the sizes that norms remove.
    """
    specs = signature.input_specs(model)
    yield paragraph(f"Model {model.name}, {model.count_params():,} parameters")
    columns = tuple(map(Column, ("", "name", "shape", "dtype")))
    outputs = zip(signature.output_names(model), model.outputs, strict=True)
    tensors = (
        *(("input", spec.name, _shape(spec.shape), spec.dtype) for spec in specs.values()),
        *(("output", name, _shape(tensor.shape), str(tensor.dtype)) for name, tensor in outputs),
    )
    yield Table("Inputs and outputs", columns, tensors)
    for mask in lost_masks(model):
        yield paragraph(f"Lost mask: {mask.description}. {mask.advice}")
    norms = [
        (path, layer)
        for path, layer in named_layers(model)
        if any(c.__name__.endswith("Normalization") for c in type(layer).__mro__)
    ]
    if not norms:
        yield paragraph("No normalization layers.")
        return
    yield Table(
        "Normalization layers",
        (
            Column("layer, and its class", "path", 38),
            Column("over", width=7),
            Column("epsilon", width=7),
            Column("moving statistics", width=16),
        ),
        tuple(_row(path, layer) for path, layer in norms),
    )
    if samples is not None:
        yield from _tables_of_input_sizes(model, samples)


def _row(path: str, layer: keras.Layer) -> Row:
    epsilon = getattr(layer, "epsilon", None)
    known = "-" if epsilon is None else f"{epsilon:g}"
    titled = Cell((path, type(layer).__name__))
    return titled, _describe_axes(layer), known, _statistics(layer)


def _tables_of_input_sizes(model: keras.Model, samples: Samples) -> Iterator[Paragraph | Table]:
    """Make a table of input sizes (Euclidean norms), and the advice below the table.

    The table has only layers that remove the scale of their inputs, for example by LayerNorm(W x).
    """
    measured = measure_input_sizes(model, samples)
    if not measured:
        yield paragraph("No recurrent layer removes the scale of the model's inputs.")
        return
    yield Table(
        "Scale (Euclidean norm) of the inputs at a timestep, which the layer removes",
        (
            Column("layer, and its norm", "path", 38),
            *number_columns("5 % are below", "5 % are above", "deviation / mean"),
        ),
        tuple(
            (
                Cell((sizes.layer, f"{sizes.norm}, {sizes.slot}")),
                *(f"{sizes.low:.2g}", f"{sizes.high:.2g}", f"{sizes.spread:.2f}"),
            )
            for sizes in measured
        ),
    )
    for sizes in measured:
        if sizes.spread >= SPREAD:
            yield paragraph(ADVICE.format(layer=sizes.layer, norm=sizes.norm, slot=sizes.slot))


def _describe_axes(layer: keras.Layer) -> str:
    """Name the axes that a layer normalizes over: "batch", "axis -1", or "-" if unknown."""
    if is_batch_norm(layer):
        return "batch"
    axis = getattr(layer, "axis", None)
    if axis is None:
        return "-"
    axes = axis if isinstance(axis, list | tuple) else [axis]
    return f"axis {', '.join(str(a) for a in axes)}"


def _statistics(layer: keras.Layer) -> str:
    """Describe the moving statistics, such as "64 features, updates: 12"; "-" if there are none."""
    if not is_batch_norm(layer):
        return "-"
    mean, _, trained = moving_statistics(layer)
    rows, features = mean.shape
    size = f"{features} features"
    if not trained.any():
        return f"{size}, not trained"
    count = getattr(layer, "update_count", None)
    if count is None:
        return f"{size}, trained"
    updates = f"{size}, updates: {int(ops.max(count))}"
    return updates if rows == 1 else f"{updates}, timesteps: {int(trained.sum())}/{rows}"


def _shape(shape: Shape) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
