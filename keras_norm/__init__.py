"""Normalization for sequence models in Keras 3."""

import importlib
import pathlib

from keras_norm import compat
from keras_norm import layers as _layers
from keras_norm import rnn as _rnn
from keras_norm.conversion.convert import convert, to_keras
from keras_norm.keras_internals import warn_of_untested_versions as _warn_of_untested_versions
from keras_norm.layers import *  # noqa: F403
from keras_norm.packed_sequences import PackedSequences, pack_sequences
from keras_norm.recalibration.assign_statistics import assign_statistics
from keras_norm.recalibration.collect_statistics import collect_statistics
from keras_norm.recalibration.merge_statistics import merge_statistics
from keras_norm.recalibration.recalibrate import recalibrate
from keras_norm.recalibration.statistics import Statistics
from keras_norm.rnn import *  # noqa: F403
from keras_norm.rnn.bidirectional import Bidirectional
from keras_norm.statistics_plot import plot_statistics
from keras_norm.version import __version__

# In a git clone, the folder `export` is not inside the folder `keras_norm`, but beside it. Extend
# `__path__`, so that `import keras_norm.export` works in a git clone too.
_FOLDER = pathlib.Path(__file__).parent
if not (_FOLDER / "export").is_dir():
    __path__.append(str(_FOLDER.parent))  # noqa: F405

__all__ = [
    "Bidirectional",
    "PackedSequences",
    "Statistics",
    "__version__",
    "assign_statistics",
    "collect_statistics",
    "compat",
    "convert",
    "merge_statistics",
    "pack_sequences",
    "plot_statistics",
    "recalibrate",
    "to_keras",
    *_layers.__all__,
    *_rnn.__all__,
]


_warn_of_untested_versions()


def __getattr__(name: str) -> object:
    """Import `keras_norm.export` at its first use."""
    if name != "export":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module("keras_norm.export")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"keras_norm.export cannot be imported: {error}. Install the package with its "
            'requirements: pip install "." in a clone of keras_norm.',
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return [*__all__, "export"]
