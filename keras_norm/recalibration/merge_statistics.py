"""Merge statistics that were collected on separate parts of the data."""

from collections.abc import Iterable

from keras_norm.recalibration.statistics import Statistics


def merge_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Merge the statistics of parts of the data into the statistics of all data.

    ::

        N = sum(n_i)        mean = sum(n_i mean_i) / N
        variance = sum(n_i (variance_i + (mean_i - mean)^2)) / N

    over the parts i, for each layer, timestep and feature. The order of the parts does not matter,
    and merged statistics can be merged again. A part without samples counts nothing.

    Args:
        parts: statistics that `collect_statistics` computed with equal weights of one model.

    Returns:
        The statistics of all parts.

    Raises:
        TypeError: a part is not a `Statistics`.
        ValueError: there are no parts; a part belongs to another model, or to other weights.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), BatchNormalization(name="norm")])
        >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
        >>> merged = merge_statistics(collect_statistics(model, part) for part in (x[:9], x[9:]))
        >>> merged.layers["norm"].count
        array([64.])

    Reference:
        Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
        Variances" (1979).
    """
    merged: Statistics | None = None
    for number, part in enumerate(parts, start=1):
        if not isinstance(part, Statistics):
            raise TypeError(
                f"parts must be an iterable of Statistics. Received as part {number}: {part!r}. "
                "Read a file with Statistics.load."
            )
        merged = part if merged is None else _merge(merged, part, number)
    if merged is None:
        raise ValueError("There are no statistics to merge. Give at least one part.")
    return merged


def _merge(merged: Statistics, part: Statistics, number: int) -> Statistics:
    """Add the statistics of a part to the merged statistics of the parts before it.

    Raises:
        ValueError: the layers, their shapes or the weights differ.
    """
    shapes, others = (
        {path: layer.mean.shape for path, layer in s.layers.items()} for s in (merged, part)
    )
    for path in sorted({**shapes, **others}):
        if shapes.get(path) != others.get(path):
            found, wanted = (
                f"statistics of shape {s[path]}" if path in s else "no statistics"
                for s in (others, shapes)
            )
            raise ValueError(
                f"Part {number} belongs to another model: it has {found} for layer {path!r}, and "
                f"part 1 has {wanted}. Collect all parts with one model."
            )
    if merged.weights != part.weights:
        raise ValueError(
            f"Part {number} was collected with other weights than part 1. Collect all parts with "
            "one saved model."
        )
    layers = {path: layer.merge(part.layers[path]) for path, layer in merged.layers.items()}
    return Statistics(layers, merged.batches + part.batches, merged.weights)
