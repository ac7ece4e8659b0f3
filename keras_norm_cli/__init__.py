"""The command line `keras-norm`: parses the arguments, runs a command and prints its errors.

The command is not part of the package keras_norm, because an import of keras_norm loads TensorFlow.
That takes seconds and writes to the terminal, and `--help` does not need it.
"""

import argparse
import importlib
import os
import pathlib
import sys
import traceback
import zipfile
from collections.abc import Sequence

from keras_norm_cli.arguments import ArgumentsError, make_parser
from keras_norm_cli.interrupts import interruptible
from keras_norm_cli.messages import one_line, quiet_native_logs, with_options
from keras_norm_verify import (
    RUNTIMES,
    GoldenCasesError,
    escape_unknown_letters,
    print_result,
    require_arrays,
    require_file,
    resolve_version,
)

__all__ = ["FAILED", "INTERRUPTED", "OK", "WRONG_USE", "main", "quiet_native_logs"]

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of the command line `keras-norm`, and return its exit status.

    Args:
        argv: arguments; None for `sys.argv[1:]`.

    Returns:
        Exit status: 0 done, 1 a check failed, 2 wrong use (one line on stderr, nothing written),
        130 interrupted.
    """
    if "" in (sys.argv[1:] if argv is None else argv):
        return _print_error(
            "an argument is empty. Check that the shell variable in this argument is set", WRONG_USE
        )
    try:
        args = make_parser().parse_args(argv)
    except ArgumentsError as error:
        return _print_error(str(error), WRONG_USE)
    try:
        with quiet_native_logs():
            status, message = _run(args)
    except KeyboardInterrupt:
        status, message = INTERRUPTED, "interrupted"
    return _print_error(message, status) if message else status


def _run(args: argparse.Namespace) -> tuple[int, str]:
    """Run a command; return its exit status and error message, "" without an error."""
    with interruptible():
        escape_unknown_letters()
        if args.command == "verify":  # `verify` runs without Keras, imported below
            try:
                return print_result(args.file, args.golden_cases), ""
            except GoldenCasesError as error:
                return WRONG_USE, str(error)
        try:
            _require_inputs(args)
        except (OSError, ValueError) as error:
            return WRONG_USE, str(error)
        from keras_norm.export import commands, errors
    try:
        with interruptible():
            if args.modules:
                sys.path.insert(0, os.getcwd())
            for module in args.modules:
                _import_module(module)
            return (FAILED if getattr(commands, args.command)(args) is False else OK), ""
    except errors.VerificationError as error:
        return FAILED, _with_notes(error)
    except (
        errors.ConversionError,
        errors.RunnerError,
        ImportError,
        OSError,
        ValueError,
    ) as error:
        return WRONG_USE, _with_notes(error)
    except MemoryError:
        return WRONG_USE, (
            "There is not enough memory. Give less data, or smaller --batch-sizes and --lengths."
        )
    # A custom layer may raise any exception. The exit status is 2: 1 means that a check failed.
    except Exception as error:
        return WRONG_USE, _with_line(error)


def _require_inputs(args: argparse.Namespace) -> None:
    """Raise OSError or ValueError for a path that a command cannot read, or an unknown format.

    The check runs before the import of the package, which takes seconds.
    """
    given = vars(args)
    _require_formats(given.get("format", ()), args.modules)
    others = (*given.get("artifacts", ()), *given.get("versions", ()))
    for name in (*others, *([args.to] if args.command == "export" else ())):
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(
                f"The path {name} is not UTF-8, which TensorFlow needs. Choose another path."
            )
    for path in (args.model, *map(pathlib.Path, others)):
        if path.suffix != ".keras" and (path != args.model or args.command == "compare"):
            resolve_version(path)
            continue
        require_file(path)
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is not a Keras model. Give a .keras file.")
    for name in ("data", "labels", "samples"):
        paths = given.get(name) or []
        for path in paths if isinstance(paths, list) else [paths]:
            require_arrays(path)


def _require_formats(names: Sequence[str], modules: Sequence[str]) -> None:
    """Raise ValueError for an unknown format, unless a module of --import may register it."""
    if modules or "keras_norm.export.formats.format_registry" in sys.modules:
        return
    for name in names:
        if name not in RUNTIMES:
            raise ValueError(f"--format must be one of {', '.join(RUNTIMES)}; received {name}")


def _print_error(message: str, status: int) -> int:
    print(f"keras-norm: {one_line(message)}", file=sys.stderr)
    return status


def _with_notes(error: Exception) -> str:
    """Join an error's message and notes; replace Python arguments by command line options."""
    notes = getattr(error, "__notes__", [])
    return with_options(". ".join([str(error).rstrip("."), *notes]) if notes else str(error))


def _import_module(module: str) -> None:
    """Import the user's module that is given with --import.

    Raises:
        ImportError: the import failed; the message names the error, its file and its line.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        raise ImportError(
            f"--import must be the name of a module, such as my.layers; received {module}"
        )
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise ImportError(f"--import {module}: {_with_line(error)}") from error


def _with_line(error: BaseException) -> str:
    """Format an error with the file and the line that raised the error."""
    from keras_norm.keras_internals import reason

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {reason(error)} ({frame.filename}, {frame.lineno})"
