"""The description of one format, from which all commands and functions work."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from keras_norm.export.optional_packages import is_installed
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.runtimes.worker_runner import WorkerRunner

Ops = Mapping[str, list[str]]


@dataclasses.dataclass(frozen=True)
class Source:
    """An artifact in one runtime, not yet opened.

    Attributes:
        name: the artifact's name in a report.
        path: the file or folder; "" for a function.
        precision: the coarsest precision of the stored values; "float64" where the file adds none.
        open: from a signature, `serving_default` by default, and `worker=`, a process of `start` or
            None, to a context manager that gives the runner.
        start: starts the process for `open`, which takes seconds; None without a process.
        optional: whether the runtime may lack operations, so that its failure is no fault of the
            file.
        alone: whether the file holds a single-step model only, which runs sequences as streams.
    """

    name: str
    path: str
    precision: str
    open: Callable[..., Any]
    start: Callable[[], WorkerProcess] | None = None
    optional: bool = False
    alone: bool = False


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format: how it is recognized, written, opened and checked.

    Attributes:
        name: what users type, such as "tflite".
        title: its name in a sentence, such as "a TFLite file".
        file_name: name of an exported file in the folder of `keras-norm export`.
        recognizes: whether a path that exists is of this format.
        export: from a model, a path and options to the path written.
        open: from a path and the name of a signature to a runner.
        sources: from a path and a name to the file in each of its runtimes.
        foreign_ops: from a path and its operations to those that a plain runtime lacks.
        signatures: from a path to the names of its signatures.
        export_again: from a path to the options of `export` that write a file of its kind.
        trace_script: worker script that computes every tensor of a file; "" for none.
    """

    name: str
    title: str
    file_name: str
    recognizes: Callable[[pathlib.Path], bool]
    export: Callable[..., pathlib.Path]
    open: Callable[..., Any]
    sources: Callable[[pathlib.Path, str], tuple[Source, ...]]
    foreign_ops: Callable[[pathlib.Path, Ops], Collection[str]] = lambda path, ops: ()
    signatures: Callable[[pathlib.Path], Collection[str]] = lambda path: ("serving_default",)
    export_again: Callable[[pathlib.Path], dict[str, Any]] = lambda path: {}
    trace_script: str = ""


def in_runtime(
    runner: type[WorkerRunner], path: pathlib.Path, name: str, precision: str, extra: str = ""
) -> tuple[Source, ...]:
    """A file in a runner, as a tuple; an empty one where the runner's packages are missing.

    Args:
        runner: the class of the runner.
        path: the file.
        name: the artifact's name in a report.
        precision: see `Source`.
        extra: the extra that installs an optional runtime; "" for a runtime that is required.
    """
    if extra and not is_installed(extra):
        return ()
    name += f" ({runner.name})" if extra else ""
    start, run = functools.partial(runner.start, path), functools.partial(runner, path)
    return (Source(name, str(path), precision, run, start, bool(extra)),)
