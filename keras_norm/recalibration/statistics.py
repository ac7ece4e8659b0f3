"""Statistics of a model's batch normalizations on data, which can be saved and merged."""

import dataclasses
import io
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from keras_norm.npz_files import read_npz
from keras_norm.recalibration.layer_moments import LayerMoments
from keras_norm.typing import Arrays

FORMAT = 1  # version of the file format; increase it when the arrays change their meaning
DAMAGED = (
    "{name} is not a file of statistics, or is damaged: {reason}. Write it with Statistics.save."
)
FIELDS = [field.name for field in dataclasses.fields(LayerMoments)]


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Count, mean and variance of the inputs of a model's batch normalizations on data.

    `collect_statistics` creates the statistics, `merge_statistics` merges them, and
    `assign_statistics` stores them in a model. All numbers are float64. A file has 16 bytes for
    each feature and row of statistics, before compression.

    Attributes:
        layers: `LayerMoments` by the path of each layer, such as "encoder/lstm_cell/state_norm".
        batches: number of batches with samples.
        weights: SHA-256 of the weights of the model. Statistics of other weights cannot be merged.

    Example:
        >>> import pathlib, tempfile
        >>> model = keras.Sequential([keras.Input((3,)), BatchNormalization(name="norm")])
        >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
        >>> path = pathlib.Path(tempfile.mkdtemp(), "statistics.npz")
        >>> collect_statistics(model, x).save(path)
        >>> Statistics.load(path).layers["norm"].count
        array([64.])
    """

    layers: Mapping[str, LayerMoments]
    batches: int
    weights: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a .npz file, without pickle."""
        pathlib.Path(path).write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the contents of the .npz file, for example to send them to another process."""
        arrays: Arrays = {
            "format": np.array(FORMAT),
            "weights": np.array(self.weights),
            "batches": np.array(self.batches),
            "layers": np.array(list(self.layers), dtype=str),
        }
        for i, layer in enumerate(self.layers.values()):
            arrays |= {f"{name}_{i}": np.asarray(getattr(layer, name)) for name in FIELDS}
        file = io.BytesIO()
        np.savez_compressed(file, allow_pickle=False, **arrays)
        return file.getvalue()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Statistics":
        """Read statistics from a file that `save` wrote.

        Raises:
            ValueError: the file is damaged, is another file, or is of a later version of
                keras_norm; a number of it is NaN, infinite or negative.
            OSError: the file cannot be read.
        """
        return cls.from_bytes(pathlib.Path(path).read_bytes(), f"'{path}'")

    @classmethod
    def from_bytes(cls, contents: bytes, name: str) -> "Statistics":
        """Read statistics from bytes that `to_bytes` returned. Error messages begin with `name`."""
        try:
            arrays = read_npz(io.BytesIO(contents))
        except ValueError as error:
            raise ValueError(DAMAGED.format(name=name, reason=error)) from error
        found = arrays["format"].tolist() if "format" in arrays else None
        if found != FORMAT:
            raise ValueError(
                f"{name} has the format version {found}, but this version of keras_norm reads "
                f"version {FORMAT}. Compute all statistics with one version of keras_norm."
            )
        try:
            layers = {
                str(path): LayerMoments(
                    arrays[f"count_{i}"],
                    arrays[f"mean_{i}"],
                    arrays[f"variance_{i}"],
                    arrays[f"batches_{i}"],
                    called=bool(arrays[f"called_{i}"]),
                )
                for i, path in enumerate(arrays["layers"])
            }
            batches, weights = int(arrays["batches"]), str(arrays["weights"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(DAMAGED.format(name=name, reason=error)) from error
        for path, layer in layers.items():
            if problem := _find_problem(layer):
                raise ValueError(f"{name} cannot be used: layer {path!r} has {problem}.")
        if batches < 0:
            raise ValueError(f"{name} cannot be used: it has a negative number of batches.")
        return cls(layers, batches, weights)


def _find_problem(layer: LayerMoments) -> str:
    """Describe what is wrong in the arrays of a layer, such as NaN; "" if nothing is wrong."""
    mean, variance, count, batches = *layer.moments, layer.batches
    if any(s.dtype != "float64" for s in layer.moments) or batches.dtype != "int64":
        return "arrays that are not float64 and int64"
    rows = mean.shape[:-1]
    shapes = [s.shape for s in (count, mean, variance, batches)]
    if not mean.ndim or shapes != [(*rows, 1), mean.shape, mean.shape, rows]:
        return f"arrays whose shapes do not fit together: {shapes}"
    if not all(np.isfinite(s).all() for s in layer.moments):
        return "statistics that are NaN or infinite"
    if any((s < 0).any() for s in (count, variance, batches)):
        return "a negative count or variance"
    return ""
