"""Run the commands of `keras-norm`; `check` returns False if an exported file fails."""

import argparse
import os
import pathlib
import re
import shutil
from collections.abc import Sequence
from inspect import signature as signature_of

import keras
import rich.console

from keras_norm.conversion.convert import convert as convert_model
from keras_norm.export.checks.array_files import read_inputs
from keras_norm.export.checks.check import check as check_model
from keras_norm.export.checks.compare_versions import compare_versions
from keras_norm.export.checks.subject import file_size
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.errors import ConversionError, UnsupportedOpError, UsageError
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.format_registry import FORMATS, format_named
from keras_norm.export.formats.staging import missing_folders, remove_empty, replace_text, staged
from keras_norm.export.golden_cases.artifact import golden_cases_path
from keras_norm.export.golden_cases.printable import MAX_PRINTED, printable
from keras_norm.export.normalization_table import summary_tables
from keras_norm.export.packages import require
from keras_norm.export.report.report import Report
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.results.artifact_result import readable_size
from keras_norm.export.signature import input_specs, pack_inputs
from keras_norm.keras_internals import reason
from keras_norm.recalibration.recalibrate import recalibrate as recalibrate_model

# Options of the exporters that the command line has too, under equal names.
EXPORT_OPTIONS = ("version", "step", "samples", "golden_cases", "warmup", "signature", "quantize")
# Keras' error messages for an unknown layer, function, constraint or similar object.
UNREGISTERED = re.compile(
    r"(?:Could not locate class |Could not locate function |Cannot deserialize object of type "
    r"|Could not interpret [\w ]+ identifier: .*?'class_name': (?:'function', 'config': )?)"
    r"['`]([^'`]+)['`]"
)
# Keras' error messages for a lambda in a Lambda layer, and for a lambda as an activation.
LAMBDA = re.compile(r"a Python lambda|function identifier: \{'value'")


def export(args: argparse.Namespace) -> None:
    """Export a model in the formats of `--format`.

    Args:
        args: `model`, `to`, `format`, `force` and `EXPORT_OPTIONS` of the command line.

    Raises:
        UsageError: a target exists, `to` is a file, or none of the formats has an option.
        ValueError, OSError, ImportError: as for the exporters.
    """
    folder = pathlib.Path(args.to)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--to must be a folder; {folder} is a file.")
    # If the export to a format fails, the artifacts already written in other formats are removed. A
    # server may have loaded an artifact, so formats for servers are written last.
    formats = sorted(
        map(format_named, dict.fromkeys(args.format)), key=lambda f: f.loaded_by_servers
    )
    given = {n: getattr(args, n) for n in EXPORT_OPTIONS if getattr(args, n) not in (None, False)}
    for option in given:
        if option in ("version", "golden_cases"):
            continue
        if not any(_has_option(each, option) for each in formats):
            supported = [name for name, each in FORMATS.items() if _has_option(each, option)]
            raise UsageError(f"--{option} needs --format {' or '.join(supported)}.")
    targets = {each.name: _target(each, folder, args.version) for each in formats}
    for each in formats:
        target = targets[each.name]
        if not target.exists():
            continue
        if args.force or args.version is not None:
            each.require_replaceable(target, args.version)
        if not args.force:
            raise UsageError(f"{target} exists; choose another --to, or --force.")
    if args.warmup:
        require("serving")
    model = _load_model(args.model)
    options = {name: getattr(args, name) for name in EXPORT_OPTIONS}
    options["samples"] = read_inputs(args.samples, input_specs(model)) if args.samples else None
    options["overwrite"] = args.force
    created = missing_folders(folder)
    replaced = {name for name, target in targets.items() if target.exists()}
    written: list[tuple[Format, pathlib.Path]] = []
    try:
        for each in formats:
            own = {name: value for name, value in options.items() if _has_option(each, name)}
            if own.get("signature"):  # a file with one signature takes no option `step`
                own["step"] = None
            path = folder / each.file_name if "version" in own else targets[each.name]
            written.append((each, each.export(model, path, **own)))
    except BaseException as error:
        if isinstance(error, UnsupportedOpError | ConversionError) and len(formats) > 1:
            error.add_note("Nothing was written.")
        for each, path in written:
            # Keep a new artifact that replaced an old artifact: without it, no artifact would be
            # left.
            if each.name not in replaced:
                golden_cases_path(path).unlink(missing_ok=True)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        remove_empty(created)
        raise
    for each, path in reversed(written):
        name = printable(str(path), MAX_PRINTED)
        signatures = ", ".join(each.signatures(path))
        print(f"{name}  {readable_size(file_size(path))}  {signatures}")


def _has_option(file_format: Format, option: str) -> bool:
    """Return whether the export function of a format has an argument of this name."""
    return option in signature_of(file_format.export).parameters


def _target(file_format: Format, folder: pathlib.Path, version: int | None) -> pathlib.Path:
    """Return the path to export to; for version 2, "saved_model/2" or "model-2.tflite"."""
    path = folder / file_format.file_name
    if version is None:
        return path
    if _has_option(file_format, "version"):
        return path / str(version)
    return path.with_name(f"{path.stem}-{version}{path.suffix}")


def check(args: argparse.Namespace) -> bool:
    """Check exported files against the model, and write the reports of `--json` and `--html`.

    Args:
        args: `model`, `artifacts`, `data`, `labels`, `lengths`, `batch_sizes`, `rtol`, `atol`,
            `max_gap`, `json` and `html` of the command line.

    Returns:
        Whether the check passed.

    Raises:
        UsageError: a file is missing or has the wrong content.
        ValueError, OSError, ImportError: as for `keras_norm.export.check`.
    """
    if args.html:
        require("report")
    _require_reports(args, args.artifacts)
    model = _load_model(args.model)
    names = ("rtol", "atol", "max_gap", "lengths", "batch_sizes", "labels")
    options = {name: getattr(args, name) for name in names}
    report = check_model(model, args.artifacts, args.data, **options)
    _print(report, args)
    return bool(report)


def compare(args: argparse.Namespace) -> None:
    """Report which predictions differ between a model and its other versions.

    The command returns nothing, because a difference between versions is not a failure.

    Args:
        args: `model`, `versions`, `data`, `labels`, `json` and `html` of the command line.

    Raises:
        UsageError: a file is missing or has the wrong content.
        ValueError, OSError, ImportError, RunnerError: as for `keras_norm.export.compare_versions`.
    """
    _require_reports(args, args.versions)
    old, *new = (
        _load_model(path) if path.suffix == ".keras" else path
        for path in (args.model, *map(pathlib.Path, args.versions))
    )
    report = compare_versions(old, new, args.data, labels=args.labels)
    _print(report, args)


def recalibrate(args: argparse.Namespace) -> None:
    """Recompute a model's moving statistics from data, and write the new model.

    Args:
        args: `model`, `data` and `to` of the command line.

    Raises:
        UsageError: a file is missing, has the wrong content, or exists already.
        ValueError: the data do not fit the inputs, or the model has nothing to recalibrate.
    """
    _require_new_model(args.to)
    model = _load_model(args.model)
    specs = input_specs(model)
    arrays = read_samples(specs, read_inputs(args.data, specs)).arrays
    batches = recalibrate_model(model, pack_inputs(model, arrays))
    with staged(args.to) as file:
        model.save(file)
    print(f"{printable(str(args.to), MAX_PRINTED)}  {batches} batches")


def convert(args: argparse.Namespace) -> None:
    """Replace the Keras layers of a model by normalized layers, and write the new model.

    Args:
        args: `model`, `norm`, `where`, `max_timesteps` and `to` of the command line.

    Raises:
        UsageError: the model cannot be loaded, or the new file exists already.
        ValueError: as for `keras_norm.convert`.
    """
    _require_new_model(args.to)
    options = {} if args.max_timesteps is None else {"max_timesteps": args.max_timesteps}
    norm = None if args.norm == "none" else args.norm
    model = convert_model(_load_model(args.model, compile=True), norm, args.where, **options)
    with staged(args.to) as file:
        model.save(file)


def inspect(args: argparse.Namespace) -> None:
    """Print a model's normalization layers, inputs and outputs.

    Args:
        args: `model` of the command line.

    Raises:
        UsageError: the file is missing or is not a model.
    """
    rich.console.Console().print(*summary_tables(_load_model(args.model)), sep="\n")


def _require_new_model(path: pathlib.Path) -> None:
    """Raise UsageError unless a new .keras file can be written to a path."""
    if path.suffix != ".keras":
        raise UsageError(f"--to must be a .keras file; received {path}.")
    if path.exists():
        raise UsageError(f"{path} exists and is not overwritten; choose another --to.")


def _require_reports(args: argparse.Namespace, read: Sequence[str]) -> None:
    """Raise UsageError if a report cannot be written, or would overwrite an input file."""
    for path in filter(None, (args.json, args.html)):
        if not path.parent.is_dir():
            raise UsageError(f"The folder {path.parent} does not exist.")
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the name of a file.")
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is a device; give the name of a file.")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"The folder {path.parent} cannot be written to.")
    files = (args.model, *args.data, *(args.labels or ()), *map(pathlib.Path, read))
    inputs = {path.resolve() for path in files}
    reports = [path.resolve() for path in (args.json, args.html) if path]
    inside = any(report.is_relative_to(path) for report in reports for path in inputs)
    if inside or len(set(reports)) < len(reports):
        raise UsageError(
            "A report would overwrite the other report or an input: the model, the data, the "
            "labels or a file of an artifact. Choose another file for --json or --html."
        )


def _print(report: Report | VersionReport, args: argparse.Namespace) -> None:
    """Print a report, and write it to the files of `--json` and `--html`."""
    forms = ((args.json, report.to_json), (args.html, report.page))
    texts = [(path, text()) for path, text in forms if path]
    report.print()
    for path, text in texts:
        try:
            replace_text(path, text)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _load_model(path: pathlib.Path, compile: bool = False) -> keras.Model:
    try:
        return keras.saving.load_model(path, compile=compile, safe_mode=True)
    # Keras' parsers may raise any error; every error means that the file cannot be loaded.
    except Exception as error:
        text = " ".join(reason(error).split())
        if unknown := UNREGISTERED.search(text):
            name = printable(unknown[1])
            text = (
                f"{name} is not registered. Name the module that registers it: keras-norm --import "
                f"MODULE COMMAND. If {name} was not registered when the model was saved, the "
                f"module must set keras.saving.get_custom_objects()['{name}']."
            )
        elif LAMBDA.search(text):
            text = (
                "the model contains a lambda, and safe mode does not run code of a file. Build the "
                "model with a registered layer or function "
                "(keras.saving.register_keras_serializable), and name its module: keras-norm "
                "--import MODULE COMMAND. Or export the model in Python, where it was built: "
                "keras_norm.export.export_saved_model(model, path)."
            )
        raise UsageError(f"{path} cannot be loaded: {text}") from error
