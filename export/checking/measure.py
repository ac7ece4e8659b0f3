"""What `check` measures, on one part of the data, for many processes that share the work."""

import contextlib
import functools
import os
import pathlib
import weakref
from collections.abc import Sequence
from typing import Any

import keras

from keras_norm.export.checking.artifacts import Artifact, sources
from keras_norm.export.checking.running import left_as_it_was, opened
from keras_norm.export.checking.sweep import Sweep
from keras_norm.export.comparing.cases import LARGE_BATCH
from keras_norm.export.comparing.data import Data
from keras_norm.export.comparing.merging import merge
from keras_norm.export.results.partial import Partial
from keras_norm.export.runners import KerasRunner


class Measure(contextlib.AbstractContextManager["Measure"]):
    """A function from a part of the data to what a check measures on it: values, metrics, the gap.

    It can be sent to other processes. Each loads the model and opens the artefacts at its first
    call, and keeps them until `close`, or until it is dropped: close it before the model is trained
    on. What it gives merges, in any order, by `merge`, and `check(..., measured=...)` makes the
    report of it.

    Args:
        model: a .keras file that every process can read, whose layers are Keras' and keras_norm's
            or are registered there; or a functional or Sequential model.
        artifacts: as `check`; the files too must be there for every process.
        rtol: as `check`, and the same as given there.
        batch_size: most samples of a call.

    Example:
    ```python
    measure = Measure("digits.keras", ["served/digits", "digits.tflite"])
    parts = [measure(file) for file in files]  # anywhere, in any order
    report = check(model, ["served/digits", "digits.tflite"], files[0], measured=merge(parts))
    ```
    """

    def __init__(
        self,
        model: keras.Model | str | os.PathLike[str],
        artifacts: Sequence[Artifact] | Artifact,
        *,
        rtol: float | None = None,
        batch_size: int = LARGE_BATCH,
    ) -> None:
        self.model, self.artifacts = model, artifacts
        self.rtol, self.batch_size = rtol, batch_size
        self._stack = contextlib.ExitStack()
        # Apache Beam, say, drops what it was given and closes nothing.
        weakref.finalize(self, self._stack.close)
        self._sweep: Sweep | None = None

    def __call__(self, data: Any, labels: Any = None) -> Partial:
        """Measure a part of the data.

        Args:
            data: as `check`; of one file or several, samples are counted in each.
            labels: as `check`.

        Returns:
            Plain data, which pickle; `to_plain` and `from_plain` of
            `keras_norm.export.results.plain` make JSON of them and read it.

        Raises:
            ValueError, FileNotFoundError, ImportError: as `check`.
        """
        sweep = self._sweep = self._sweep or self._opened()
        with left_as_it_was(sweep.model):
            return merge(map(sweep, Data(sweep.run.inputs, data, labels, by_file=True)))

    def _opened(self) -> Sweep:
        model = self.model
        if not isinstance(model, keras.Model):
            model = keras.saving.load_model(pathlib.Path(model), compile=False)
        runs = self._stack.enter_context(opened(sources(self.artifacts, model)))
        return Sweep(model, KerasRunner(model), runs, self.rtol, self.batch_size)

    def close(self) -> None:
        """Close what was opened; a further call opens it anew."""
        self._stack.close()
        self._sweep = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        measure = functools.partial(Measure, rtol=self.rtol, batch_size=self.batch_size)
        return measure, (self.model, self.artifacts)
