"""The exported files that a check runs, and the runners that each is run in."""

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
    """A file of the step alone, as a function of whole sequences.

    Args:
        model: the Keras model, which says what is a sequence and what a state.
        open_runner: from a signature and a worker process, if there is one, to the file's runner.
        worker: that process.

    Raises:
        RunnerError: the file does not run, or the model has no step.
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
        self.path, self.arena = self.run.path, getattr(self.run, "arena", None)
        self.ops, self.state, self.seconds = self.run.ops, self.run.state, self.run.seconds

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """What the model gives for the whole: see `Step.over_time`."""
        return self.step.over_time(self.run, inputs)

    def __exit__(self, *_: object) -> None:
        self.run.close()


def sources(artifacts: Sequence[Artifact] | Artifact, model: Any = None) -> tuple[Source, ...]:
    """Every artefact with each of its runners.

    SavedModels run in TensorFlow and through its C API, TFLite files in LiteRT, and both, where it
    is installed, in OpenVINO; TFLite files of a step alone, where it is installed, in TensorFlow
    Lite Micro; ONNX files in ONNX Runtime.

    Args:
        artifacts: SavedModel folders (or folders of numbered versions: the highest is taken),
            TFLite files by any name, .onnx files, and functions from arrays to arrays.
        model: the Keras model, by which a file of the step alone runs whole sequences.

    Raises:
        ValueError: no artefacts, or a file or folder that is no model.
        FileNotFoundError: a path that does not exist.
        ImportError: a .tflite file, and LiteRT is not installed; an .onnx file, and ONNX Runtime is
            not.
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
            "A Keras model is no artefact: export it, and check the files. Two models are compared "
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
        # Namesakes in two folders need the whole path.
        found.extend(_file(path, _short(path) if names.count(_short(path)) == 1 else str(path)))
    # Results are kept by name: of those that share one, the second has a number, and so on.
    seen: collections.Counter[str] = collections.Counter()
    for k, source in enumerate(found):
        seen[source.name] += 1
        number = f" ({seen[source.name]})" if seen[source.name] > 1 else ""
        run = functools.partial(Streamed, model, source.open) if source.alone else source.open
        found[k] = dataclasses.replace(source, name=source.name + number, open=run)
    return tuple(found)


def _short(path: pathlib.Path) -> str:
    """The last name of a path, with the one before it where it is a version."""
    return "/".join(path.parts[-2:]) if path.name.isdecimal() else path.name


def _function(run: Run) -> Source:
    name = getattr(run, "name", None) or getattr(run, "__name__", type(run).__name__)
    # What a function of the user's has by the name of a runner's attribute is something else.
    own = run if isinstance(run, Runner) else functools.partial(run)
    return Source(str(name), "", "float64", lambda worker: contextlib.nullcontext(own))


def _file(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    found = format_of(path)
    if found is None:
        raise ValueError(f"{path} is not {titles()}.")
    return found.sources(path, name)
