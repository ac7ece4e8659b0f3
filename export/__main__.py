"""The command line: keras-norm export, check and inspect."""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

OK, FAILED, WRONG_USE = 0, 1, 2


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why, in one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments; None takes those of the process.

    Returns:
        Exit status: 0 done, 1 a check failed, 2 wrong use (one line on stderr, nothing written).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        args = _parser().parse_args(argv)
        with _quiet_native_logs():
            from keras_norm.export.errors import ConversionError, VerificationError

            try:
                return args.command(args)
            except VerificationError as error:
                message, status = str(error), FAILED
            except (ConversionError, ImportError, OSError, ValueError) as error:
                raise UsageError(str(error)) from error
    except UsageError as error:
        message, status = str(error), WRONG_USE
    print(f"keras-norm: {' '.join(message.split())}", file=sys.stderr)
    return status


def _export(args: argparse.Namespace) -> int:
    from keras_norm.export import export_saved_model, export_tflite

    folder = pathlib.Path(args.to)
    saved_model, tflite = folder / "saved_model", folder / "model.tflite"
    target = saved_model if args.version is None else saved_model / str(args.version)
    if args.quantize and not args.tflite:
        raise UsageError("--quantize needs --tflite: SavedModels are not quantized.")
    for path in (target, *([tflite] if args.tflite else [])):
        if path.exists():
            raise UsageError(f"{path} exists and is never overwritten; choose another --to.")
    model = _load_model(args.model)
    is_new = not folder.exists()
    written: list[pathlib.Path] = []
    try:
        # TFLite comes first: it is the one that may be refused, and then nothing is written.
        if args.tflite:
            written.append(export_tflite(model, tflite, quantize=args.quantize))
        written.append(export_saved_model(model, saved_model, version=args.version))
    except BaseException:
        for path in written:
            path.unlink()
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    for path in reversed(written):
        print(f"{path}  {_size(path)}")
    return OK


def _check(args: argparse.Namespace) -> int:
    from keras_norm.export import check
    from keras_norm.export.page import render, require_report_extra

    if args.html:
        require_report_extra()
    for path in filter(None, (args.json, args.html)):
        if not path.parent.is_dir():
            raise UsageError(f"The folder {path.parent} does not exist.")
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the name of a file.")
    data = _load_data(args.data)
    model = _load_model(args.model)
    report = check(
        model, args.artifacts, data, rtol=args.rtol, atol=args.atol, max_gap=args.max_gap
    )
    pages = [(args.json, report.to_json())] if args.json else []
    if args.html:
        pages.append((args.html, render(report)))
    for path, text in pages:
        _write(path, text)
    report.print()
    return OK if report else FAILED


def _inspect(args: argparse.Namespace) -> int:
    import rich.console

    from keras_norm.export.summary import summary_tables

    parts = list(summary_tables(_load_model(args.model)))
    console = rich.console.Console()
    for part in parts:
        console.print(part)
    return OK


def _load_model(path: pathlib.Path) -> Any:
    import keras

    if not path.is_file():
        raise UsageError(f"{path}: no such file.")
    if not zipfile.is_zipfile(path):
        raise UsageError(f"{path} is no Keras model: expected a .keras file.")
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    # Keras raises whatever its parsers raise; all of it means that this file cannot be used.
    except Exception as error:
        text = " ".join(str(error).split())
        if unknown := re.search(r"Could not locate class '([^']+)'", text):
            text = f"its layer {unknown[1]} is not registered; Keras' and keras_norm's are."
        elif "Lambda" in text:
            text = "it holds a Lambda layer, whose code safe mode does not run."
        raise UsageError(f"{path} cannot be loaded: {text.split('. ')[0]}") from error


def _load_data(path: pathlib.Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UsageError(f"{path}: no such file.")
    if not zipfile.is_zipfile(path):
        raise UsageError(
            f"{path} is no .npz file; write one by numpy.savez(file, input_name=array)."
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _write(path: pathlib.Path, text: str) -> None:
    """Write all of the file or none of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _size(path: pathlib.Path) -> str:
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    size = sum(file.stat().st_size for file in files)
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


@contextlib.contextmanager
def _quiet_native_logs() -> Iterator[None]:
    """Keep what TensorFlow and LiteRT log from C++ off the terminal.

    They write some of it to file descriptor 2 whatever the log level. An exception that no command
    foresees brings it back, above its traceback.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except UsageError:
            raise
        except BaseException:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments as everything else wrong: one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="keras-norm",
        description="Export Keras models, and check that the exported files compute the same.",
        epilog="Exit status: 0 done, 1 a check failed, 2 wrong use.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("model", type=pathlib.Path, metavar="MODEL.keras")
        sub.set_defaults(command=run)
        return sub

    export = command("export", _export, "write a model as SavedModel and TFLite")
    export.add_argument("--to", required=True, metavar="DIR", help="folder to write in")
    export.add_argument("--version", type=int, help="write DIR/saved_model/VERSION for a server")
    export.add_argument("--tflite", action="store_true", help="write DIR/model.tflite too")
    export.add_argument("--quantize", choices=("float16", "dynamic"), help="TFLite's weights")

    check = command("check", _check, "compare exported files with the model, on real data")
    check.add_argument("artifacts", nargs="+", metavar="ARTEFACT", help="SavedModel or .tflite")
    check.add_argument(
        "--data", required=True, type=pathlib.Path, metavar="FILE.npz", help="arrays by input name"
    )
    check.add_argument("--rtol", type=float, help="relative tolerance")
    check.add_argument("--atol", type=float, help="absolute tolerance")
    check.add_argument("--max-gap", type=float, help="fail beyond this train/inference gap")
    check.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report as JSON")
    check.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write it as a page")

    command("inspect", _inspect, "list a model's normalization layers, inputs and outputs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
