"""Run the commands of `keras-norm`, whose arguments `check_arguments` has accepted.

Each function takes the arguments of its command, as `arguments.make_parser` parses them.
"""

import argparse
import pathlib
import shutil

import rich.console

from keras_norm.conversion.convert import convert as convert_model
from keras_norm.export.checks.check import check as check_model
from keras_norm.export.checks.compare_versions import compare_versions
from keras_norm.export.checks.data_reader import read_arrays
from keras_norm.export.checks.subject import file_size
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.errors import ConversionError, UnsupportedOpError
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.format_registry import format_named
from keras_norm.export.formats.staging import missing_folders, remove_empty, replace_text, staged
from keras_norm.export.model.load_model import load_model
from keras_norm.export.normalization_table import summary_tables
from keras_norm.export.packages import require
from keras_norm.export.report.report import Report
from keras_norm.export.report.terminal import to_rich
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.results.artifact_result import readable_size
from keras_norm.export.signature import input_specs, pack_inputs
from keras_norm.recalibration.recalibrate import recalibrate as recalibrate_model
from keras_norm_cli.file_formats import known_formats
from keras_norm_verify.artifact import golden_cases_path
from keras_norm_verify.printable import MAX_PRINTED, printable

# Both the export functions and the command line have these options.
EXPORT_OPTIONS = ("version", "step", "samples", "golden_cases", "warmup", "signature", "quantize")


def export(args: argparse.Namespace) -> None:
    """Export a model in the formats of `--format`.

    Raises:
        ValueError, OSError, ImportError: as for the exporters.
    """
    folder = pathlib.Path(args.to)
    # If the export to one format fails, the new artifacts in other formats are removed. A server
    # may load an artifact as soon as it is written. So the formats that servers load come last.
    formats = sorted(
        map(format_named, dict.fromkeys(args.format)), key=lambda f: f.loaded_by_servers
    )
    known = known_formats()
    targets = {each.name: known[each.name].target(folder, args.version) for each in formats}
    for each in formats:
        if targets[each.name].exists():
            each.require_replaceable(targets[each.name], args.version)
    if args.warmup:
        require("serving")
    model = load_model(args.model)
    options = {name: getattr(args, name) for name in EXPORT_OPTIONS}
    options["samples"] = read_arrays(args.samples) if args.samples else None
    options["overwrite"] = args.force
    created = missing_folders(folder)
    replaced = {name for name, target in targets.items() if target.exists()}
    written: list[tuple[Format, pathlib.Path]] = []
    try:
        for each in formats:
            supported = {*known[each.name].options, "overwrite"}
            own = {name: value for name, value in options.items() if name in supported}
            # With --signature step, the file has the step signature only. So ignore --step, which
            # adds the step signature as a second signature.
            if own.get("signature"):
                own["step"] = None
            path = folder / each.file_name if "version" in own else targets[each.name]
            written.append((each, each.export(model, path, **own)))
    except BaseException as error:
        if isinstance(error, UnsupportedOpError | ConversionError) and len(formats) > 1:
            error.add_note("Nothing was written.")
        for each, path in written:
            # Remove the new artifact, unless it replaced an old artifact.
            if each.name not in replaced:
                golden_cases_path(path).unlink(missing_ok=True)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        remove_empty(created)
        raise
    for each, path in reversed(written):
        name = printable(str(path), MAX_PRINTED)
        signatures = ", ".join(map(printable, each.signatures(path)))
        print(f"{name}  {readable_size(file_size(path))}  {signatures}")


def check(args: argparse.Namespace) -> bool:
    """Check exported files against the model, and write the reports of `--json` and `--html`.

    Returns:
        Whether the check passed.

    Raises:
        ValueError, OSError, ImportError: as for `keras_norm.export.check`.
    """
    if args.html:
        require("report")
    model = load_model(args.model)
    names = ("rtol", "atol", "max_gap", "lengths", "batch_sizes", "labels")
    options = {name: getattr(args, name) for name in names}
    report = check_model(model, args.artifacts, args.data, **options)
    _print(report, args)
    return bool(report)


def compare(args: argparse.Namespace) -> None:
    """Report which predictions differ between a model and other versions of the model.

    The command returns nothing, because a difference between versions is not a failure.

    Raises:
        ValueError, OSError, ImportError, RunnerError: as for `keras_norm.export.compare_versions`.
    """
    _print(compare_versions(args.model, args.versions, args.data, labels=args.labels), args)


def recalibrate(args: argparse.Namespace) -> None:
    """Recompute a model's moving statistics from data, and write the new model.

    Raises:
        ValueError: the data do not fit the inputs, or the model has nothing to recalibrate.
    """
    model = load_model(args.model)
    specs = input_specs(model)
    arrays = read_samples(specs, read_arrays(args.data)).arrays
    batches = recalibrate_model(model, pack_inputs(model, arrays))
    with staged(args.to) as file:
        model.save(file)
    print(f"{printable(str(args.to), MAX_PRINTED)}  {batches} batches")


def convert(args: argparse.Namespace) -> None:
    """Replace the Keras layers of a model by normalized layers, and write the new model.

    Raises:
        ValueError: as for `keras_norm.convert`.
    """
    options = {} if args.max_timesteps is None else {"max_timesteps": args.max_timesteps}
    norm = None if args.norm == "none" else args.norm
    model = convert_model(load_model(args.model, compile=True), norm, args.where, **options)
    with staged(args.to) as file:
        model.save(file)


def inspect(args: argparse.Namespace) -> None:
    """Print a model's normalization layers, inputs and outputs.

    With `--data`, also print the sizes of a layer's inputs x, if a norm of W x removes the sizes.

    Raises:
        ValueError: the file cannot be loaded, or the data do not fit the inputs.
    """
    model = load_model(args.model)
    specs = input_specs(model)
    samples = read_samples(specs, read_arrays(args.data)) if args.data else None
    rich.console.Console().print(*to_rich(summary_tables(model, samples)), sep="\n")


def _print(report: Report | VersionReport, args: argparse.Namespace) -> None:
    """Print a report, and write it to the files of `--json` and `--html`."""
    forms = ((args.json, report.to_json), (args.html, report.page))
    texts = [(path, text()) for path, text in forms if path]
    report.print()
    for path, text in texts:
        try:
            replace_text(path, text)
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror}") from error
