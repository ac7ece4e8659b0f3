"""The class that describes a file format: how to recognize, write, open and check its files."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection, Mapping

import keras

from keras_norm.export.packages import is_installed
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.typing import Array, Arrays, Json
from keras_norm_verify.runtimes import Runtime

Ops = Mapping[str, list[str]]


@dataclasses.dataclass(frozen=True)
class ConstantDifference:
    """Difference of one constant, such as a kernel, in two quantized files of the same model.

    The first file is the file to check. The check exports the second file from the same model.

    Attributes:
        name: name of the constant in the file.
        layers: the layer that the constant belongs to, for a message.
        difference: |actual - expected| at the value where it exceeds the rounding error most.
        rounding: the sum of the rounding errors of both constants at this value.
    """

    name: str
    layers: str
    difference: float
    rounding: float


@dataclasses.dataclass(frozen=True)
class Source:
    """An artifact (exported file, folder or function), and a runtime that can run it.

    Attributes:
        name: the artifact's name in a report.
        path: the file or folder; "" for a function.
        precision: the coarsest precision of the stored values; "float64" if the file does not
            round the values further.
        open: a function that returns a context manager, which yields the runner. It takes the
            name of a signature (default `serving_default`) and `worker=`, a process from `start` or
            None.
        start: a function that starts the process for `open`, which takes seconds; None if the
            runtime needs no process.
        optional: whether the runtime may lack operations, so that its failure does not mean that
            the file is wrong.
        is_single_step: whether the file has the step signature only, which runs whole sequences
            one timestep at a time.
        runtime: name of the runtime, such as "OpenVINO"; "" for a function.
    """

    name: str
    path: str
    precision: str
    open: Callable[..., contextlib.AbstractContextManager[Runner]]
    start: Callable[[], WorkerProcess] | None = None
    optional: bool = False
    is_single_step: bool = False
    runtime: str = ""


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format: how it is recognized, written, opened and checked.

    Attributes:
        name: the name in commands and options, such as "tflite".
        runtime: how `keras_norm_verify`, which needs only NumPy, recognizes and runs an artifact.
        file_name: name of an exported file in the folder of `keras-norm export`.
        export: takes a model, a path and options; writes the artifact and returns its path.
        open: takes a path and the name of a signature; returns a runner.
        sources: takes a path and an artifact's name; returns a `Source` for each runtime. None for
            the runtime of `open` only.
        foreign_ops: takes a path and its operations; returns the operations that a runtime without
            extensions lacks.
        signatures: takes a path; returns the names of its signatures.
        export_again: takes a path; returns the options with which `export` writes a similar file.
        stored_weights: takes a path; returns all arrays that the artifact stores as variables. None
            if the format stores weights among other constants.
        compare_constants: takes the Keras model, a path and samples by input name; compares the
            constants of a quantized file with the constants of a new export. Returns the
            differences, or the reason why there are none. None if the format is never quantized.
        input_ranges: takes a path; returns the range of each input that the file rounds to
            integers, by input name.
        trace_script: worker script that computes every tensor of a file; "" for none.
        loaded_by_servers: whether a server may load the artifact as soon as it is written. The
            command line then writes it after the artifacts of other formats.
        require_replaceable: takes an existing path and a version or None; raises FileExistsError
            for a path that `export` never overwrites.
    """

    name: str
    runtime: Runtime
    file_name: str
    export: Callable[..., pathlib.Path]
    open: Callable[[pathlib.Path, str], Runner]
    sources: Callable[[pathlib.Path, str], tuple[Source, ...]] | None = None
    foreign_ops: Callable[[pathlib.Path, Ops], Collection[str]] = lambda path, ops: ()
    signatures: Callable[[pathlib.Path], Collection[str]] = lambda path: (SERVING_DEFAULT,)
    export_again: Callable[[pathlib.Path], dict[str, Json]] = lambda path: {}
    stored_weights: Callable[[pathlib.Path], list[Array]] | None = None
    compare_constants: (
        Callable[[keras.Model, pathlib.Path, Arrays], list[ConstantDifference] | str] | None
    ) = None
    input_ranges: Callable[[pathlib.Path], Mapping[str, tuple[float, float]]] = lambda path: {}
    trace_script: str = ""
    loaded_by_servers: bool = False
    require_replaceable: Callable[[pathlib.Path, int | None], None] = lambda path, version: None

    def find_sources(self, path: pathlib.Path, name: str) -> tuple[Source, ...]:
        """Return a `Source` (artifact and runtime) for each runtime that can run the artifact.

        Args:
            path: the artifact.
            name: the artifact's name in a report.
        """
        if self.sources is not None:
            return self.sources(path, name)

        def opened(signature_name: str = SERVING_DEFAULT, worker: None = None) -> Runner:
            return self.open(path, signature_name)

        return (Source(name, str(path), "float32", opened, runtime=self.name),)


def sources_in_runtime(
    runner: type[WorkerRunner], path: pathlib.Path, name: str, precision: str, extra: str = ""
) -> tuple[Source, ...]:
    """Return one `Source` (artifact and runtime) in a tuple, or () if the runtime is missing.

    The runtime is the runtime of the class `runner`. `extra` is the pip extra of an optional
    runtime, and "" for a required runtime.
    """
    if extra and not is_installed(extra):
        return ()
    name += f" ({runner.name})" if extra else ""
    start, run = functools.partial(runner.start, path), functools.partial(runner, path)
    return (Source(name, str(path), precision, run, start, bool(extra), runtime=runner.name),)
