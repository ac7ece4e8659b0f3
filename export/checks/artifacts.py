"""Find the runners for the exported files that a check compares."""

import collections
import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_norm.export.errors import RunnerError, StreamingError
from keras_norm.export.formats.artifact_format import Source
from keras_norm.export.formats.registry import format_of, titles
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes.runner import Arrays, Run, Runner
from keras_norm.export.signature import STEP

Artifact = str | os.PathLike[str] | Run


class Streamed(contextlib.AbstractContextManager["Streamed"]):
    """Run whole sequences through a single-step file, one timestep at a time.

    Args:
        model: the Keras model; it defines which inputs are sequences and which are states.
        open_runner: function that opens the file's runner, given a signature and `worker`.
        worker: a worker process that is already running, or None.

    Raises:
        RunnerError: the file does not run, or the model does not support a step signature.
    """

    def __init__(self, model: Any, open_runner: Any, worker: Any = None) -> None:
        try:
            self.step = Step(model)
        except StreamingError as error:
            raise RunnerError(
                f"the file is a step alone, and the model has none: {error}"
            ) from error
        self.run = open_runner(STEP, worker=worker)
        self.batch = next(spec.shape[0] for spec in self.run.inputs.values())
        self.path, self.arena = self.run.path, self.run.arena
        self.ops, self.seconds = self.run.ops, self.run.seconds
        self.variable_digests = self.run.variable_digests

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Return the outputs for whole sequences: see `Step.over_time`."""
        return self.step.over_time(self.run, inputs)

    def __exit__(self, *_: object) -> None:
        self.run.close()


def sources(artifacts: Sequence[Artifact] | Artifact, model: Any = None) -> tuple[Source, ...]:
    """Return a source for every artifact and each of its runners.

    SavedModels run in TensorFlow and through the TensorFlow C API, TFLite files in LiteRT, ONNX
    files in ONNX Runtime. If OpenVINO is installed, SavedModels and TFLite files run in it too. If
    TensorFlow Lite Micro is installed, single-step TFLite files run in it too.

    Args:
        artifacts: SavedModel directories (of a directory of numbered versions, the highest version
            is taken), TFLite files of any name, .onnx files, and functions from arrays to arrays.
        model: the Keras model; it is needed to run whole sequences through a single-step file.

    Raises:
        ValueError: there are no artifacts, or a file or directory is not a model.
        FileNotFoundError: a path does not exist.
        ImportError: LiteRT is needed for a .tflite file, or ONNX Runtime for an .onnx file, and is
            not installed.
    """
    given: Any = artifacts
    several = isinstance(given, Iterable) and not isinstance(given, str | bytes | os.PathLike)
    artifacts = list(given) if several and not callable(given) else [given]
    if not artifacts:
        raise ValueError(
            "There is nothing to check. Give at least one SavedModel, .tflite or .onnx file."
        )
    if any(isinstance(artifact, keras.Model) for artifact in artifacts):
        raise ValueError(
            "A Keras model is no artifact: export it, and check the files. Two models are compared "
            "by compare_versions(old, new, data)."
        )
    for artifact in artifacts:
        if not (callable(artifact) or isinstance(artifact, str | os.PathLike)):
            raise ValueError(
                "An artifact is the path of a SavedModel, .tflite or .onnx file, or a function "
                f"from arrays to arrays. Received: {artifact!r}."
            )
    names = [_short(pathlib.Path(a)) for a in artifacts if not callable(a)]
    found: list[Source] = []
    for artifact in artifacts:
        if callable(artifact):
            found.append(_function(artifact))
            continue
        path = pathlib.Path(artifact)
        # Two files of equal name in different directories need the whole path.
        found.extend(_file(path, _short(path) if names.count(_short(path)) == 1 else str(path)))
    # Results are stored by name, so a repeated name gets a number: "model.tflite (2)".
    seen: collections.Counter[str] = collections.Counter()
    for k, source in enumerate(found):
        seen[source.name] += 1
        number = f" ({seen[source.name]})" if seen[source.name] > 1 else ""
        run = (
            functools.partial(Streamed, model, source.open)
            if source.is_single_step
            else source.open
        )
        found[k] = dataclasses.replace(source, name=source.name + number, open=run)
    return tuple(found)


def _short(path: pathlib.Path) -> str:
    """Return the last part of a path, with the parent's name if the last part is a version."""
    return "/".join(path.parts[-2:]) if path.name.isdecimal() else path.name


def _function(run: Run) -> Source:
    name = getattr(run, "name", None) or getattr(run, "__name__", type(run).__name__)
    # A user's function may have attributes with the names of a runner's attributes, but with
    # another meaning; `partial` hides them.
    own = run if isinstance(run, Runner) else functools.partial(run)
    return Source(str(name), "", "float64", lambda worker: contextlib.nullcontext(own))


def _file(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    found = format_of(path)
    if found is None:
        raise ValueError(f"{path} is not {titles()}.")
    return found.sources(path, name)
