"""The command line `keras-norm`: parse the arguments, run a command and print its errors.

The command is not part of the package keras_norm, because `import keras_norm` loads TensorFlow.
This import takes seconds and writes to the terminal, and `--help` does not need TensorFlow.
"""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from keras_norm_cli.arguments import ArgumentsError, make_parser
from keras_norm_cli.check_arguments import check_files, check_formats
from keras_norm_cli.interrupts import interruptible
from keras_norm_cli.messages import one_line, quiet_native_logs, with_options
from keras_norm_verify.printable import escape_unknown_letters
from keras_norm_verify.verify import print_result

__all__ = ["FAILED", "INTERRUPTED", "OK", "WRONG_USE", "main", "quiet_native_logs"]

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of the command line `keras-norm`, and return its exit status.

    Args:
        argv: arguments; None for `sys.argv[1:]`.

    Returns:
        Exit status: 0 done, 1 a check failed, 2 wrong use (one line on stderr, nothing written),
        130 interrupted. Without a command, the help is printed on stderr.
    """
    if "" in (sys.argv[1:] if argv is None else argv):
        return _print_error(
            "an argument is empty. Check that the shell variable in this argument is set", WRONG_USE
        )
    parser = make_parser()
    try:
        args = parser.parse_args(argv)
    except ArgumentsError as error:
        return _print_error(str(error), WRONG_USE)
    if args.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
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
        try:
            # Run `verify` before the import of Keras below: `verify` needs no Keras.
            if args.command == "verify":
                _import_modules(args.modules)
                return print_result(args.file, args.golden_cases), ""
            check_files(args)
            _import_modules(args.modules)
            check_formats(args)
        except (ImportError, OSError, ValueError) as error:
            return WRONG_USE, str(error)
        from keras_norm.export import errors
        from keras_norm_cli import commands
    try:
        with interruptible():
            return (FAILED if getattr(commands, args.command)(args) is False else OK), ""
    except errors.VerificationError as error:
        return FAILED, _with_notes(error)
    except (errors.ConversionError, errors.RunnerError, ImportError, OSError, ValueError) as error:
        return WRONG_USE, _with_notes(error)
    except MemoryError:
        return WRONG_USE, (
            "There is not enough memory. Give less data, or smaller --batch-sizes and --lengths."
        )
    # A custom layer may raise any exception. The exit status is WRONG_USE (2), because FAILED (1)
    # means that a check failed.
    except Exception as error:
        return WRONG_USE, _with_line(error)


def _print_error(message: str, status: int) -> int:
    print(f"keras-norm: {one_line(message)}", file=sys.stderr)
    return status


def _with_notes(error: Exception) -> str:
    """Join an error's message and notes; replace Python arguments by command line options."""
    notes = getattr(error, "__notes__", [])
    return with_options(". ".join([str(error).rstrip("."), *notes]) if notes else str(error))


def _import_modules(modules: Sequence[str]) -> None:
    """Import the user's modules that are given with --import.

    Raises:
        ImportError: an import failed; the message names the error, its file and its line.
    """
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ImportError(
                f"--import must be the name of a module, such as my.layers; received {module}"
            )
    folder = os.getcwd()
    if modules:
        sys.path.insert(0, folder)
    for module in modules:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            reason = _with_line(error)
            if isinstance(error, ModuleNotFoundError) and error.name == module:
                reason = f"there is no such module in {folder} or on Python's path"
            raise ImportError(f"--import {module}: {reason}") from error


def _with_line(error: BaseException) -> str:
    """Format an error with the file and the line that raised the error."""
    message = str(error)
    if sys.modules.get("keras"):
        from keras_norm.keras_internals import reason

        message = reason(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {message} ({frame.filename}, {frame.lineno})"
