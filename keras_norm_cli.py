"""The command `keras-norm`: its arguments and its exit status.

The module is not part of the package, because an import of keras_norm loads TensorFlow. That takes
seconds and writes to the terminal, and `--help` does not need it.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import logging
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

RAISE_AGAIN = 0.1  # seconds until a swallowed interrupt is raised again
CLEANUP = 5.0  # seconds for an exception handler before an interrupt is raised inside it too

# Patterns of Python arguments in messages, and the options of the command line to print for them.
OPTIONS = {
    r"""\b(quantize|signature)=["'](\w+)["']""": r"--\1 \2",
    r"\bsamples=(\{[^}]*\}|\w+)": "--samples FILE.npz",
    r"\b(step|warmup)=True": r"--\1",
    r"\bstep=False": "--no-step",
    r"\bgolden_cases=False": "--no-golden-cases",
    r"\boverwrite=True": "--force",
    r"\ba higher version\b": "a higher --version",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments; None for `sys.argv[1:]`.

    Returns:
        Exit status: 0 done, 1 a check failed, 2 wrong use (one line on stderr, nothing written),
        130 interrupted.
    """
    if "" in (sys.argv[1:] if argv is None else argv):
        return _fail("an argument is empty. Check that the shell variables are set", WRONG_USE)
    try:
        args = _parser().parse_args(argv)
    except _ArgumentsError as error:
        return _fail(str(error), WRONG_USE)
    try:
        with quiet_native_logs():
            status, message = _run(args)
    except KeyboardInterrupt:
        status, message = INTERRUPTED, "interrupted"
    return _fail(message, status) if message else status


def _run(args: argparse.Namespace) -> tuple[int, str]:
    """Run a command; return its exit status and an error message, or ""."""
    with interruptible():
        import keras_norm_verify

        keras_norm_verify.escape_unknown_letters()
        if args.command == "verify":  # runs without an import of Keras or keras_norm
            try:
                return keras_norm_verify.print_result(args.file, args.golden_cases), ""
            except keras_norm_verify.GoldenCasesError as error:
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
                _import(module)
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
    # A custom layer may raise any exception. The status is not 1, which means a failed check.
    except Exception as error:
        return WRONG_USE, _with_place(error)


def _require_inputs(args: argparse.Namespace) -> None:
    """Raise OSError or ValueError for a path that a command cannot read.

    The check runs before the import of the package, which takes seconds.
    """
    from keras_norm_verify import require_arrays, require_file, resolve_version

    given = vars(args)
    others = (*given.get("artifacts", ()), *given.get("versions", ()))
    for name in (*others, *([args.to] if args.command == "export" else ())):
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"{name} is not UTF-8, but TensorFlow needs UTF-8 names. Rename it.")
    for path in (args.model, *map(pathlib.Path, others)):
        if path.suffix != ".keras" and (path != args.model or args.command == "compare"):
            resolve_version(path)
            continue
        require_file(path)
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is not a Keras model: expected a .keras file.")
    for name in ("data", "labels", "samples"):
        paths = given.get(name) or []
        for path in paths if isinstance(paths, list) else [paths]:
            require_arrays(path)


def _with_notes(error: Exception) -> str:
    """Join the message and the notes of an error, with options in place of Python arguments."""
    notes = getattr(error, "__notes__", [])
    return _with_options(". ".join([str(error).rstrip("."), *notes]) if notes else str(error))


def _with_options(text: str) -> str:
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


def _import(module: str) -> None:
    """Import a user's module.

    Raises:
        ImportError: the import failed; the message has one line with the error and its place.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        raise ImportError(
            f"--import takes the name of a module, such as my.layers. Received: {module}"
        )
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise ImportError(f"--import {module}: {_with_place(error)}") from error


def _with_place(error: BaseException) -> str:
    """Format an error with the file and line that raised it."""
    from keras_norm.keras_internals import reason

    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {reason(error)} ({place.filename}, {place.lineno})"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End the block with KeyboardInterrupt at SIGINT or SIGTERM, after its cleanup.

    Keras swallows every exception when it computes a shape or tries to build a layer. So the
    KeyboardInterrupt is raised again every RAISE_AGAIN seconds until the block ends. An exception
    handler may be the cleanup, so an interrupt inside a handler waits CLEANUP seconds. It must not
    wait forever: a lock that the first interrupt left locked could block the cleanup. TensorFlow
    turns an interrupt during tracing into another exception. So an Exception that leaves the block
    after an interrupt becomes a KeyboardInterrupt.
    """
    interrupted, ended = 0.0, False  # time of the last KeyboardInterrupt; whether the block ended

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if ended:
            return
        set_timer(RAISE_AGAIN)
        now = time.monotonic()
        if not sys.exception() or now >= interrupted + CLEANUP:
            interrupted = now
            raise KeyboardInterrupt

    def set_timer(seconds: float) -> None:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    has_timer = hasattr(signal, "setitimer")  # not on Windows
    handled = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) != signal.SIG_IGN]
    handled += [signal.SIGALRM] if has_timer else []
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        ended = True
        set_timer(0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def quiet_native_logs() -> Iterator[None]:
    """Hide the C++ logs of TensorFlow and LiteRT inside the block.

    Both libraries write to file descriptor 2 at any log level. If an exception other than an
    interrupt leaves the block, the hidden logs are printed above its traceback. Warnings of
    keras_norm are printed to the terminal.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    logger = logging.getLogger("keras_norm")
    with tempfile.TemporaryFile() as log, os.fdopen(os.dup(2), "w") as stream:
        warnings = logging.StreamHandler(stream)
        warnings.setFormatter(_OneLine("keras-norm: %(message)s"))
        logger.addHandler(warnings)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except Exception:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            logger.removeHandler(warnings)
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


class _OneLine(logging.Formatter):
    """Formats a warning as one line, also with line breaks in the names of layers."""

    def format(self, record: logging.LogRecord) -> str:
        return _one_line(_with_options(super().format(record)))


def _fail(message: str, status: int) -> int:
    print(f"keras-norm: {_one_line(message)}", file=sys.stderr)
    return status


def _one_line(text: str) -> str:
    from keras_norm_verify import MOST_PRINTED, printable

    return printable(" ".join(text.split()), MOST_PRINTED)


class _ArgumentsError(Exception):
    """The arguments of the command line are wrong."""


class _Parser(argparse.ArgumentParser):
    """Raises an exception for wrong arguments, so that they are reported in one line."""

    def error(self, message: str) -> NoReturn:
        raise _ArgumentsError(f"{message} (see {self.prog} --help)")


class _ShowVersion(argparse.Action):
    """Reads the version when --version is given, because an uninstalled package has no version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"keras-norm {importlib.metadata.version('keras-norm')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="keras-norm",
        description="Export Keras models, and compare the outputs of the files with the model.",
        epilog="Exit status: 0 done, 1 a check failed, 2 wrong use, 130 interrupted.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="print the version and exit"
    )
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a module that registers custom layers; the current folder is searched too",
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")

    def command(name: str, text: str, metavar: str = "MODEL.keras") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("model", type=pathlib.Path, metavar=metavar)
        return sub

    def npz(sub: argparse.ArgumentParser, name: str, text: str, **options: Any) -> None:
        sub.add_argument(name, type=pathlib.Path, metavar="FILE.npz", help=text, **options)

    def data_and_reports(sub: argparse.ArgumentParser) -> None:
        text = "arrays by input name, or .npy for one input; several files are read one at a time"
        npz(sub, "--data", text, required=True, nargs="+")
        text = "labels by output name, or .npy for one output; one file for each data file"
        npz(sub, "--labels", text, nargs="+")
        text = "also write the report as "
        sub.add_argument("--json", type=pathlib.Path, metavar="FILE", help=f"{text}JSON")
        sub.add_argument("--html", type=pathlib.Path, metavar="FILE", help=f"{text}an HTML page")

    export = command("export", "write a model as SavedModel, TFLite or ONNX")
    export.add_argument("--to", required=True, metavar="DIR", help="folder to write to")
    export.add_argument("--version", type=int, help="write DIR/saved_model/VERSION for a server")
    export.add_argument(
        "--step",
        action=argparse.BooleanOptionalAction,
        help="require the step signature, or omit it; the default writes it if the model can run "
        "one timestep at a time",
    )
    text = "arrays by input name, or .npy for one input: test inputs of the exported files, and "
    text += "calibration data of int8"
    npz(export, "--samples", text)
    export.add_argument(
        "--no-golden-cases",
        dest="golden_cases",
        action="store_false",
        help="write no golden cases for verify",
    )
    export.add_argument(
        "--warmup",
        action="store_true",
        help="let TensorFlow Serving run the golden cases when it loads the model",
    )
    export.add_argument(
        "--format",
        nargs="+",
        default=["saved_model"],
        metavar="NAME",
        help="saved_model (the default), tflite or onnx: DIR/saved_model, DIR/model.tflite, "
        "DIR/model.onnx, with --version N DIR/saved_model/N, DIR/model-N.tflite",
    )
    export.add_argument(
        "--quantize",
        choices=("float16", "dynamic", "int8", "int16x8"),
        help="quantization of the TFLite file",
    )
    export.add_argument(
        "--signature",
        choices=("step",),
        help="write a TFLite file with the step signature only, for streams",
    )
    export.add_argument("--force", action="store_true", help="replace existing files")

    check = command("check", "compare exported files with the model, on real data")
    check.add_argument(
        "artifacts", nargs="+", metavar="ARTIFACT", help="SavedModel, .tflite or .onnx"
    )
    data_and_reports(check)
    text = "relative tolerance; the default depends on the precision"
    check.add_argument("--rtol", type=float, help=text)
    text = "absolute tolerance; the default depends on depth and timesteps"
    check.add_argument("--atol", type=float, help=text)
    check.add_argument("--lengths", type=int, nargs="+", help="numbers of timesteps to run")
    check.add_argument("--batch-sizes", type=int, nargs="+", help="batch sizes to run")
    text = "largest accepted difference between training mode and inference"
    check.add_argument("--max-gap", type=float, help=text)

    text = "list the samples whose predictions change in other versions of a model"
    compare = command("compare", text, "OLD")
    compare.add_argument(
        "versions", nargs="+", metavar="NEW", help=".keras, SavedModel, .tflite or .onnx"
    )
    data_and_reports(compare)

    verify = commands.add_parser(
        "verify",
        help="run an exported file on its golden cases",
        description="Run an exported file on its golden cases, without Keras.",
    )
    verify.add_argument("file", metavar="ARTIFACT", help="SavedModel, .tflite or .onnx")
    text = "file of the golden cases, if it is not beside the artifact"
    verify.add_argument("--golden-cases", metavar="FILE.npz", help=text)

    recalibrate = command("recalibrate", "recompute moving statistics from data")
    npz(recalibrate, "--data", "arrays by input name, or .npy for one input", required=True)
    recalibrate.add_argument(
        "--to", required=True, type=pathlib.Path, metavar="NEW.keras", help="file to write"
    )

    command("inspect", "list a model's normalization layers, inputs and outputs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
