"""Find the runtimes that can run each exported file of a check."""

import collections
import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import keras

from keras_norm.export.errors import RunnerError, StreamingError
from keras_norm.export.formats.artifact_format import Source
from keras_norm.export.formats.format_registry import FORMATS
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes.runner import Run, Runner, name_and_inputs
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.signature import STEP, input_specs
from keras_norm.typing import Arrays, TensorLike
from keras_norm_verify.runtimes import require_known

Artifact = str | os.PathLike[str] | Run

WANTED = (
    "An artifact is the path of a SavedModel, .tflite or .onnx file, or a function. The function "
    "takes a dict of input arrays and returns a dict of output arrays."
)


class SingleStepRunner(Runner):
    """Run whole sequences through an exported file that computes one timestep in each call.

    Args:
        model: the Keras model; it defines which inputs are sequences and which are states.
        step_runner: the runner of the step signature.

    Raises:
        RunnerError: the model has no single-step model.

    Attributes:
        step_runner: as above.
        batch: the static batch size of the file; 1 if it is dynamic.
    """

    def __init__(self, model: keras.Model, step_runner: Runner) -> None:
        try:
            self._step = Step(model)
        except StreamingError as error:
            step_runner.close()
            raise RunnerError(
                f"the file runs one timestep at a time, but the Keras model cannot: {error}"
            ) from error
        self.inputs, self.step_runner = input_specs(model), step_runner
        self.name, self.path, self.arena = step_runner.name, step_runner.path, step_runner.arena
        self.batch = next(spec.shape[0] for spec in step_runner.inputs.values()) or 1

    def _run(self, inputs: Arrays) -> Arrays:
        """Run whole sequences one timestep at a time, and return the outputs."""
        return self._step.over_time(self.step_runner, inputs)

    def ops(self) -> dict[str, list[str]]:
        """Return the operations in the file, each with the names of its nodes."""
        return self.step_runner.ops()

    def variable_digests(self) -> dict[str, str]:
        """Return a digest (hash) of the value of each variable, by name of the variable."""
        return self.step_runner.variable_digests()

    def seconds(self) -> float | None:
        """Return the average time in seconds that the file needs for one timestep."""
        return self.step_runner.seconds()

    def close(self) -> None:
        """Close the runner of the file that computes one timestep in each call."""
        self.step_runner.close()


class FunctionRunner(Runner):
    """Run a user's function, which maps a dict of input arrays to a dict of output arrays.

    The function may have attributes with the names of a runner's attributes, but with another
    meaning. The check reads the attributes of this class instead.

    Args:
        function: the function. It may have an attribute `inputs`, with a spec for each input name.
    """

    path = None

    def __init__(self, function: Run) -> None:
        self.name, self.inputs = name_and_inputs(function)
        self._function = function

    def __call__(self, inputs: Mapping[str, TensorLike]) -> Arrays:
        """Call the user's function. Do not check input shapes: the function may declare none."""
        return self._run(dict(inputs))

    def _run(self, inputs: Arrays) -> Arrays:
        return self._function(inputs)


def sources(
    artifacts: Sequence[Artifact] | Artifact, model: keras.Model | None = None
) -> tuple[Source, ...]:
    """Find the runtimes of each exported file; return a `Source` for each (file, runtime) pair.

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
    if isinstance(artifacts, str | os.PathLike) or callable(artifacts):
        artifacts = [artifacts]
    elif isinstance(artifacts, bytes | Mapping) or not isinstance(artifacts, Iterable):
        raise ValueError(f"{WANTED} Received: {artifacts!r}.")
    artifacts = list(artifacts)
    if not artifacts:
        raise ValueError(
            "The list of artifacts is empty. Give at least one SavedModel, .tflite or .onnx file."
        )
    if any(isinstance(artifact, keras.Model) for artifact in artifacts):
        raise ValueError(
            "A Keras model is not an artifact. Export it, and check the exported files. To compare "
            "two models, call compare_versions(old, new, data)."
        )
    for artifact in artifacts:
        if not (callable(artifact) or isinstance(artifact, str | os.PathLike)):
            raise ValueError(f"{WANTED} Received: {artifact!r}.")
    names = [_short_name(pathlib.Path(a)) for a in artifacts if not callable(a)]
    found: list[Source] = []
    for artifact in artifacts:
        if callable(artifact):
            found.append(_function_source(artifact))
            continue
        path = pathlib.Path(artifact)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
        # If two files have the same name, the report shows their whole paths.
        short = _short_name(path)
        name = short if names.count(short) == 1 else str(path)
        found.extend(FORMATS[require_known(path)].find_sources(path, name))
    # Results are stored by name, so a repeated name gets a number: "model.tflite (2)".
    counts: collections.Counter[str] = collections.Counter()
    for k, source in enumerate(found):
        counts[source.name] += 1
        number = f" ({counts[source.name]})" if counts[source.name] > 1 else ""
        run = functools.partial(_open_step, model, source) if source.is_single_step else source.open
        found[k] = dataclasses.replace(source, name=source.name + number, open=run)
    return tuple(found)


def _open_step(model: keras.Model, source: Source, worker: WorkerProcess | None) -> Runner:
    return SingleStepRunner(model, source.open(STEP, worker=worker).__enter__())


def _short_name(path: pathlib.Path) -> str:
    """Return the short name: "model.tflite", or "digits/1" for the directory "models/digits/1"."""
    return "/".join(path.parts[-2:]) if path.name.isdecimal() else path.name


def _function_source(function: Run) -> Source:
    run = function if isinstance(function, Runner) else FunctionRunner(function)
    return Source(run.name, "", "float64", lambda worker: contextlib.nullcontext(run))
