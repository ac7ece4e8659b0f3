"""The parser of the command line `keras-norm`."""

import argparse
import contextlib
import importlib.metadata
import math
import pathlib
import platform
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from keras_norm_cli.file_formats import BUILT_IN

DEFAULT_FORMAT = "saved_model"
ARRAYS = ".npz file of arrays by input name, or .npy file for a model with one input"
LARGEST = 2**63 - 1  # TensorFlow stores version numbers and shapes as 64-bit integers


class ArgumentsError(Exception):
    """Error for wrong arguments of the command line."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that raises ArgumentsError, so that an error is printed as one line."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentsError(f"{message} (see {self.prog} --help)")


class _ShowVersions(argparse.Action):
    """Prints the versions of keras-norm, Python and the requirements for `--version`."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"keras-norm {importlib.metadata.version('keras-norm')}")
        print(f"Python {platform.python_version()}, {platform.platform()}")
        print(*_installed_requirements(), sep=", ")
        parser.exit()


def _installed_requirements() -> Iterator[str]:
    """Yield the name and version of each installed requirement, without importing it."""
    requirements = importlib.metadata.requires("keras-norm") or []
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}
    for name in sorted(names - {"keras-norm"}):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


def _number(text: str) -> float:
    """Parse an argument as a finite number, 0 or larger."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"must be a finite number, 0 or larger; received {text}")
    return value


def _relative_tolerance(text: str) -> float:
    value = _number(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(
            f"must be below 1, because otherwise an output of zeros passes; received {text}"
        )
    return value


def _positive(text: str) -> int:
    """Parse an argument as an integer, 1 or larger, that 64 bits can store."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be an integer, 1 or larger; received {text}")
    if value > LARGEST:
        raise argparse.ArgumentTypeError(f"must be at most {LARGEST}; received {text}")
    return value


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line `keras-norm`."""
    parser = _Parser(
        prog="keras-norm",
        description="Export Keras models, and compare the outputs of the files with the model.",
        epilog="Exit status: 0 done, 1 a check failed, 2 wrong use, 130 interrupted.",
    )
    parser.add_argument(
        "--version",
        action=_ShowVersions,
        nargs=0,
        help="print the versions of keras-norm, Python and the requirements, and exit",
    )
    parser.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a module that registers custom layers; the current folder is searched too",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, text: str, metavar: str = "MODEL.keras") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("model", type=pathlib.Path, metavar=metavar)
        return sub

    def npz(sub: argparse.ArgumentParser, name: str, text: str, **options: Any) -> None:
        sub.add_argument(name, type=pathlib.Path, metavar="FILE.npz", help=text, **options)

    def data_and_reports(sub: argparse.ArgumentParser) -> None:
        text = f"{ARRAYS}; several files are read one at a time"
        npz(sub, "--data", text, required=True, nargs="+")
        text = (
            ".npz file of labels by output name, or .npy file for a model with one output; with "
            "several files of --data, give as many files of labels"
        )
        npz(sub, "--labels", text, nargs="+")
        for option, form in (("--json", "JSON"), ("--html", "an HTML page")):
            text = f"also write the report as {form}"
            sub.add_argument(option, type=pathlib.Path, metavar="FILE", help=text)

    def new_model(sub: argparse.ArgumentParser) -> None:
        text = "file to write"
        sub.add_argument("--to", required=True, type=pathlib.Path, metavar="NEW.keras", help=text)

    export = command("export", "export a model as SavedModel, TFLite or ONNX")
    export.add_argument("--to", required=True, metavar="DIR", help="folder to write to")
    export.add_argument(
        "--version", type=_positive, help="write DIR/saved_model/VERSION for a server"
    )
    export.add_argument(
        "--step",
        action=argparse.BooleanOptionalAction,
        help="--step: write a second signature, which runs one timestep in each call; --no-step: "
        "do not write it; default: write it for a model with a dynamic number of timesteps that "
        "can run single timesteps",
    )
    npz(export, "--samples", f"{ARRAYS}: samples to test the files and to calibrate int8")
    export.add_argument(
        "--no-golden-cases",
        dest="golden_cases",
        action="store_false",
        help="do not write golden cases: inputs and expected outputs for the command verify",
    )
    export.add_argument(
        "--warmup",
        action="store_true",
        help="let TensorFlow Serving run the golden cases when it loads the model",
    )
    export.add_argument(
        "--format",
        nargs="+",
        default=[DEFAULT_FORMAT],
        metavar="NAME",
        help=f"formats to write: {', '.join(BUILT_IN)}; the default is {DEFAULT_FORMAT}. Writes "
        f"{', '.join(f'DIR/{each.file_name}' for each in BUILT_IN.values())}. The option --version "
        "N changes the path to DIR/saved_model/N or DIR/model-N.tflite",
    )
    export.add_argument(
        "--quantize",
        choices=("float16", "dynamic", "int8", "int16x8"),
        help="quantization of the TFLite file",
    )
    export.add_argument(
        "--signature",
        choices=("step",),
        help="write a TFLite file that runs only one timestep in each call, for streams",
    )
    export.add_argument("--force", action="store_true", help="replace existing files")

    check = command("check", "compare exported files with the model, on real data")
    check.add_argument(
        "artifacts", nargs="+", metavar="ARTIFACT", help="SavedModel, .tflite or .onnx"
    )
    data_and_reports(check)
    text = "relative tolerance of the outputs; the default depends on the file's precision"
    check.add_argument("--rtol", type=_relative_tolerance, help=text)
    text = (
        "absolute tolerance of the outputs; the default depends on the precision, and on the "
        "numbers of layers and timesteps"
    )
    check.add_argument("--atol", type=_number, help=text)
    check.add_argument("--lengths", type=_positive, nargs="+", help="numbers of timesteps to check")
    check.add_argument("--batch-sizes", type=_positive, nargs="+", help="batch sizes to check")
    text = (
        "the check fails for a larger difference between the outputs in training and at inference"
    )
    check.add_argument("--max-gap", type=_number, help=text)

    text = "list the samples whose predictions differ between an old model and new versions"
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
    text = "file of inputs and expected outputs; default: the file that the export wrote"
    verify.add_argument("--golden-cases", metavar="FILE.npz", help=text)

    recalibrate = command("recalibrate", "recompute the moving statistics of batch norms from data")
    npz(recalibrate, "--data", ARRAYS, required=True)
    new_model(recalibrate)

    convert = command("convert", "replace a model's Keras layers by normalized layers")
    convert.add_argument(
        "--norm",
        choices=("layer", "rms", "batch", "none"),
        default="layer",
        help="norm of the recurrent layers; with 'none' the outputs are those of the Keras model",
    )
    text = "names or paths of the layers to convert, such as encoder/lstm; default: all"
    convert.add_argument("--where", nargs="+", metavar="LAYER", help=text)
    text = "number of timesteps with their own statistics, for --norm batch"
    convert.add_argument("--max-timesteps", type=_positive, metavar="N", help=text)
    new_model(convert)

    inspect = command("inspect", "list a model's normalization layers, inputs and outputs")
    text = "also warn if a recurrent layer removes differences in scale between its inputs"
    npz(inspect, "--data", f"{ARRAYS}: {text}")
    return parser
