"""The command `keras-norm`: its arguments and its exit status.

It stands beside the package because importing any part of keras_norm loads TensorFlow, which takes
seconds and writes to the terminal: `--help` and a mistyped command need neither.
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

INSISTENCE = 0.1  # seconds until an interrupt that was swallowed is raised again
PATIENCE = 5.0  # seconds that an exception may be handled before it is raised there too

# How a message names an argument in Python -> the option of the command line.
OPTIONS = {
    r"""\b(quantize|signature)=["'](\w+)["']""": r"--\1 \2",
    r"\bsamples=(\{[^}]*\}|\w+)": "--samples FILE.npz",
    r"\b(step|warmup)=True": r"--\1",
    r"\b(step|proof)=False": r"--no-\1",
    r"\boverwrite=True": "--force",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments; None takes those of the process.

    Returns:
        Exit status: 0 done, 1 a check failed, 2 wrong use (one line on stderr, nothing written),
        130 interrupted.
    """
    if "" in (sys.argv[1:] if argv is None else argv):
        return _say("an argument is empty: is a variable of the shell not set?", WRONG_USE)
    try:
        args = _parser().parse_args(argv)
    except _ArgumentsError as error:
        return _say(str(error), WRONG_USE)
    try:
        with quiet_native_logs():
            status, message = _run(args)
    except KeyboardInterrupt:
        status, message = INTERRUPTED, "interrupted"
    return _say(message, status) if message else status


def _run(args: argparse.Namespace) -> tuple[int, str]:
    """The exit status of a command, and what there is to say of a refusal."""
    with interruptible():
        import keras_norm_verify

        keras_norm_verify.escape_unknown_letters()
        if args.command == "verify":  # needs neither Keras nor this package
            try:
                return keras_norm_verify.report(args.file, args.proof), ""
            except keras_norm_verify.ProofError as error:
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
    # Whatever a layer of the user's raises: status 1 would say that a check failed.
    except Exception as error:
        return WRONG_USE, _with_place(error)


def _require_inputs(args: argparse.Namespace) -> None:
    """Raise OSError or ValueError for a path that a command cannot read.

    It is asked before the package is imported, which takes seconds.
    """
    from keras_norm_verify import require_arrays, require_file, resolved

    given = vars(args)
    others = (*given.get("artifacts", ()), *given.get("versions", ()))
    for name in (*others, *([args.to] if args.command == "export" else ())):
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"{name} is not UTF-8, and TensorFlow takes no other name. Rename it.")
    for path in (args.model, *map(pathlib.Path, others)):
        if path.suffix != ".keras" and (path != args.model or args.command == "compare"):
            resolved(path)
            continue
        require_file(path)
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is no Keras model: expected a .keras file.")
    for name in ("data", "labels", "samples"):
        paths = given.get(name) or []
        for path in paths if isinstance(paths, list) else [paths]:
            require_arrays(path)


def _with_notes(error: Exception) -> str:
    """What an error says, and what was noted of it, with options in place of Python arguments."""
    notes = getattr(error, "__notes__", [])
    return _with_options(". ".join([str(error).rstrip("."), *notes]) if notes else str(error))


def _with_options(text: str) -> str:
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


def _import(module: str) -> None:
    """Import a module of the user's; whatever it raises is one line, with its place.

    Raises:
        ImportError: it cannot be imported.
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
    """Write an error as text, with the line of code that raised it."""
    from keras_norm.keras_internals import reason

    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {reason(error)} ({place.filename}, {place.lineno})"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT, and SIGTERM like it, end the block by KeyboardInterrupt, with what it cleans up.

    Keras swallows every exception, this one too, where it asks for a shape or tries whether a layer
    can be built; so it is raised again until the block ends. While an exception is handled, which
    may be the clean-up, it is only after PATIENCE: a lock that the interrupt left taken would hold
    the clean-up for ever. TensorFlow makes others of it where it traces: an Exception that the
    block raises after an interrupt is taken for the interrupt.
    """
    interrupted, ended = 0.0, False  # when it was raised last, and whether the block is left

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if ended:
            return
        again(INSISTENCE)
        now = time.monotonic()
        if not sys.exception() or now >= interrupted + PATIENCE:
            interrupted = now
            raise KeyboardInterrupt

    def again(seconds: float) -> None:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    timed = hasattr(signal, "setitimer")  # as it is but on Windows
    wanted = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) != signal.SIG_IGN]
    wanted += [signal.SIGALRM] if timed else []
    before = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        ended = True
        again(0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def quiet_native_logs() -> Iterator[None]:
    """Keep what TensorFlow and LiteRT log from C++ off the terminal.

    They write some of it to file descriptor 2 whatever the log level. An exception that leaves the
    block, other than an interrupt, brings it back, above its traceback. The warnings of keras_norm
    go to the terminal.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    logger = logging.getLogger("keras_norm")
    with tempfile.TemporaryFile() as log, os.fdopen(os.dup(2), "w") as told:
        warnings = logging.StreamHandler(told)
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
    """Writes a warning as one line, whatever names it holds."""

    def format(self, record: logging.LogRecord) -> str:
        return _one_line(_with_options(super().format(record)))


def _say(message: str, status: int) -> int:
    print(f"keras-norm: {_one_line(message)}", file=sys.stderr)
    return status


def _one_line(text: str) -> str:
    from keras_norm_verify import MOST_PRINTED, printable

    return printable(" ".join(text.split()), MOST_PRINTED)


class _ArgumentsError(Exception):
    """The arguments do not fit; the message says why."""


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments as everything else wrong: in one line."""

    def error(self, message: str) -> NoReturn:
        raise _ArgumentsError(f"{message} (see {self.prog} --help)")


class _ShowVersion(argparse.Action):
    """Asks for the version when it is wanted: a package that is not installed has none."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"keras-norm {importlib.metadata.version('keras-norm')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="keras-norm",
        description="Export Keras models, and check that the exported files compute the same.",
        epilog="Exit status: 0 done, 1 a check failed, 2 wrong use, 130 interrupted.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show the version, and do nothing else"
    )
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import what registers the model's own layers, from this folder too",
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")

    def command(name: str, text: str, metavar: str = "MODEL.keras") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("model", type=pathlib.Path, metavar=metavar)
        return sub

    def npz(sub: argparse.ArgumentParser, name: str, text: str, **options: Any) -> None:
        sub.add_argument(name, type=pathlib.Path, metavar="FILE.npz", help=text, **options)

    def data_and_reports(sub: argparse.ArgumentParser) -> None:
        text = "arrays by input name, or .npy for one input; several are read one at a time"
        npz(sub, "--data", text, required=True, nargs="+")
        text = "labels by output name, or .npy for one output: a file for each of the data"
        npz(sub, "--labels", text, nargs="+")
        sub.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report too")
        sub.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write it as a page")

    export = command("export", "write a model as SavedModel and TFLite")
    export.add_argument("--to", required=True, metavar="DIR", help="folder to write in")
    export.add_argument("--version", type=int, help="write DIR/saved_model/VERSION for a server")
    export.add_argument(
        "--step",
        action=argparse.BooleanOptionalAction,
        help="insist on a signature step, or leave it out; else it is where the model streams",
    )
    text = "arrays by input name, or .npy for one input: the files are run on them, and int8 takes "
    text += "its scales from them"
    npz(export, "--samples", text)
    export.add_argument(
        "--no-proof", dest="proof", action="store_false", help="write no cases for verify"
    )
    export.add_argument(
        "--warmup", action="store_true", help="let a server run the same cases when it loads"
    )
    export.add_argument(
        "--tflite", action="store_true", help="write DIR/model.tflite (model-VERSION.tflite) too"
    )
    export.add_argument(
        "--quantize",
        choices=("float16", "dynamic", "int8", "int16x8"),
        help="how TFLite's weights are stored",
    )
    export.add_argument(
        "--signature", choices=("step",), help="the TFLite file as one timestep alone, for streams"
    )
    export.add_argument("--force", action="store_true", help="replace files that exist")

    check = command("check", "compare exported files with the model, on real data")
    check.add_argument(
        "artifacts", nargs="+", metavar="ARTEFACT", help="SavedModel, .tflite, .onnx"
    )
    data_and_reports(check)
    check.add_argument("--rtol", type=float, help="relative tolerance, else the precision's")
    check.add_argument("--atol", type=float, help="absolute tolerance, else by depth and timesteps")
    check.add_argument("--lengths", type=int, nargs="+", help="numbers of timesteps to run")
    check.add_argument("--batch-sizes", type=int, nargs="+", help="batch sizes to run")
    check.add_argument("--max-gap", type=float, help="fail beyond this train/inference gap")

    text = "say what another version predicts differently, and for whom"
    compare = command("compare", text, "OLD")
    compare.add_argument(
        "versions", nargs="+", metavar="NEW", help=".keras, SavedModel, .tflite, .onnx"
    )
    data_and_reports(compare)

    verify = commands.add_parser(
        "verify",
        help="run an exported file on the cases that came with it",
        description="Run an exported file on the cases that came with it, without Keras.",
    )
    verify.add_argument("file", metavar="ARTEFACT", help="SavedModel or .tflite")
    verify.add_argument("--proof", metavar="FILE.npz", help="where its cases are, if elsewhere")

    recalibrate = command("recalibrate", "recompute moving statistics from data")
    npz(recalibrate, "--data", "arrays by input name, or .npy for one input", required=True)
    recalibrate.add_argument(
        "--to", required=True, type=pathlib.Path, metavar="NEW.keras", help="file to write"
    )

    command("inspect", "list a model's normalization layers, inputs and outputs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
