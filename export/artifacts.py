"""The exported files that a check runs, and the runners that each is run in."""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from keras_norm.export.precision import tflite_precision
from keras_norm.export.properties import Run
from keras_norm.export.runners import CApiRunner, SavedModelRunner, TFLiteRunner, require_litert
from keras_norm.export.saved_model import saved_model_signature

Artifact = str | os.PathLike[str] | Run


@dataclasses.dataclass(frozen=True)
class Source:
    """One artefact in one runner, not yet opened.

    Attributes:
        name: how a report calls it.
        path: the file or folder, "" for a function.
        precision: the coarsest precision of what the file stores, "float64" where it adds nothing.
        open: returns a context manager that gives the runner.
    """

    name: str
    path: str
    precision: str
    open: Callable[[], Any]


def sources(artifacts: Sequence[Artifact] | Artifact) -> tuple[Source, ...]:
    """Every artefact with each of its runners: two for a SavedModel, one for anything else.

    Args:
        artifacts: SavedModel folders (or folders of numbered versions: the highest is taken),
            .tflite files, and functions from arrays to arrays.

    Raises:
        ValueError: no artefacts, or a file or folder that is no model.
        FileNotFoundError: a path that does not exist.
        ImportError: a .tflite file, and LiteRT is not installed.
    """
    if isinstance(artifacts, str | os.PathLike) or callable(artifacts):
        artifacts = [artifacts]
    if not artifacts:
        raise ValueError("There is nothing to check. Give at least one SavedModel or .tflite file.")
    paths = [pathlib.Path(a) for a in artifacts if not callable(a)]
    names = [path.name for path in paths]
    found: list[Source] = []
    for artifact in artifacts:
        if callable(artifact):
            found.append(_function(artifact))
            continue
        path = pathlib.Path(artifact)
        # Folders named by a version, and namesakes in two folders, need the whole path.
        short = names.count(path.name) == 1 and not path.name.isdecimal()
        found.extend(_file(path, path.name if short else str(path)))
    return tuple(found)


def _function(run: Run) -> Source:
    name = getattr(run, "name", None) or getattr(run, "__name__", type(run).__name__)
    return Source(str(name), "", "float64", lambda: contextlib.nullcontext(run))


def _file(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        folder = _newest(path)
        saved_model_signature(folder)
        return tuple(
            Source(label, str(path), "float64", functools.partial(runner, folder))
            for label, runner in ((name, SavedModelRunner), (f"{name} (C API)", CApiRunner))
        )
    with path.open("rb") as file:
        if file.read(8)[4:] != b"TFL3":
            raise ValueError(f"{path} is neither a SavedModel folder nor a TFLite file.")
    require_litert()
    return (Source(name, str(path), tflite_precision(path), functools.partial(TFLiteRunner, path)),)


def _newest(path: pathlib.Path) -> pathlib.Path:
    """The SavedModel's own folder: `path`, or the highest version in it."""
    if (path / "saved_model.pb").is_file():
        return path
    versions = [f.parent for f in path.glob("*/saved_model.pb") if f.parent.name.isdecimal()]
    if not versions:
        raise ValueError(
            f"{path} is no SavedModel: it holds neither saved_model.pb nor numbered versions."
        )
    return max(versions, key=lambda folder: int(folder.name))
