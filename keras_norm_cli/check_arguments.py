"""Refuse wrong arguments of a command before the import of TensorFlow, which takes seconds."""

import argparse
import os
import pathlib
import zipfile
from collections.abc import Sequence

from keras_norm_cli.file_formats import known_formats
from keras_norm_verify.artifact import find_artifact
from keras_norm_verify.files import require_arrays, require_file
from keras_norm_verify.runtimes import RUNTIMES, require_known

# Values of --quantize that need samples, from which the scales of the activations are computed.
NEED_SAMPLES = ("int8", "int16x8")


def check_files(args: argparse.Namespace) -> None:
    """Raise OSError or ValueError for a file that a command cannot read, or cannot write."""
    given = vars(args)
    artifacts = [*given.get("artifacts", ()), *given.get("versions", ())]
    for name in (*artifacts, *([args.to] if args.command == "export" else ())):
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(
                f"The path {name} is not UTF-8, which TensorFlow needs. Choose another path."
            )
    inputs = [args.model, *map(pathlib.Path, artifacts)]
    for path in inputs:
        is_model = path == args.model and args.command != "compare"
        if is_model or path.suffix in (".keras", ".h5"):
            _require_model(path)
    found = (given.get(name) or [] for name in ("data", "samples", "labels"))
    data, samples, labels = ([x] if isinstance(x, pathlib.Path) else x for x in found)
    for path in (*data, *samples, *labels):
        require_arrays(path)
    if labels and len(labels) != len(data):
        raise ValueError(
            f"Give one file of labels for each of the {len(data)} files of --data. Received: "
            f"{len(labels)} file(s)."
        )
    if args.command == "convert" and args.max_timesteps and args.norm != "batch":
        raise ValueError(f"--max-timesteps needs --norm batch; received --norm {args.norm}.")
    if args.command in ("check", "compare"):
        _require_reports(args, [*inputs, *data, *labels])
    elif args.command in ("recalibrate", "convert"):
        _require_new_model(args.to)


def check_formats(args: argparse.Namespace) -> None:
    """Raise OSError or ValueError for an unknown format, or one that lacks an option in `args`.

    A module of `--import` can register a format, so this function runs after the imports.
    """
    if args.command == "export":
        _require_export_folder(pathlib.Path(args.to))
        _require_export_options(args)
        _require_new_artifacts(args)
    elif args.command == "check":
        for name in args.artifacts:
            require_known(find_artifact(pathlib.Path(name)))
    elif args.command == "compare":
        for path in (args.model, *map(pathlib.Path, args.versions)):
            if path.suffix != ".keras":
                require_known(find_artifact(path))


def _require_model(path: pathlib.Path) -> None:
    try:
        require_file(path)
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{error} Give the .keras file of a Keras model.") from error
    if path.suffix == ".h5":
        raise ValueError(
            f"{path} is an HDF5 file, not a .keras file. Load it in Python, and save the model: "
            'model.save("model.keras").'
        )
    if not _is_model_file(path):
        raise ValueError(f"{path} is not a Keras model. Give a .keras file.")


def _is_model_file(path: pathlib.Path) -> bool:
    """Return whether a file is an archive with the config of a Keras model."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "config.json" in archive.namelist()
    # The zip parser may raise any error for a file of another kind.
    except Exception:
        return False


def _require_reports(args: argparse.Namespace, read: Sequence[pathlib.Path]) -> None:
    """Raise an error if a report cannot be written, or would overwrite an input of the command."""
    for option in ("json", "html"):
        if path := getattr(args, option):
            if not path.parent.is_dir():
                raise FileNotFoundError(f"--{option}: there is no folder {path.parent}.")
            if (path.exists() or path.is_symlink()) and not path.is_file():
                kind = "folder" if path.is_dir() else "device" if path.exists() else "broken link"
                raise OSError(f"--{option}: {path} is a {kind}. Give the name of a file.")
            _require_folder(path.parent, f"--{option}")
    inputs = {pathlib.Path(os.path.realpath(path)) for path in read}
    reports = [pathlib.Path(os.path.realpath(path)) for path in (args.json, args.html) if path]
    inside = any(report.is_relative_to(path) for report in reports for path in inputs)
    if inside or len(set(reports)) < len(reports):
        raise ValueError(
            "A report would overwrite the other report, the model, the data, the labels, or a file "
            "of an artifact. Choose another file for --json or --html."
        )


def _require_new_model(path: pathlib.Path) -> None:
    """Require that a new .keras file can be written to a path."""
    if path.suffix != ".keras":
        raise ValueError(f"--to must be a .keras file; received {path}.")
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists and is not overwritten; choose another --to.")
    _require_folder(path.parent, "--to")


def _require_export_folder(folder: pathlib.Path) -> None:
    names = [each.file_name for each in known_formats().values()]
    suffixes = {".keras", ".h5", ".pb", *(pathlib.Path(name).suffix for name in names)} - {""}
    if folder.suffix in suffixes and not folder.is_dir():
        raise ValueError(
            f"--to must be a folder; received the file name {folder}. The exported files get the "
            f"names {', '.join(f'DIR/{name}' for name in names)}."
        )
    _require_folder(folder, "--to")


def _require_folder(folder: pathlib.Path, option: str) -> None:
    """Require that a folder exists or can be made, and that files can be written in it."""
    existing = next(f for f in (folder, *folder.parents) if f.exists() or f.is_symlink())
    if not existing.exists():
        raise NotADirectoryError(
            f"{option}: {existing} is a link to {existing.readlink()}, which does not exist. Make "
            "the folder to which the link points, or choose another."
        )
    if not existing.is_dir():
        raise NotADirectoryError(f"{option} must be a folder; {existing} is a file.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"{option}: the folder {existing} cannot be written to.")


def _require_export_options(args: argparse.Namespace) -> None:
    """Require known formats, and options that the formats have and that can be combined."""
    formats = known_formats()
    for name in args.format:
        if name not in formats:
            raise ValueError(f"--format must be one of {', '.join(formats)}; received {name}")
    for option in ("step", "samples", "warmup", "signature", "quantize"):
        supported = [name for name, each in formats.items() if option in each.options]
        if getattr(args, option) and not set(supported) & set(args.format):
            raise ValueError(f"--{option} needs --format {' or '.join(supported)}.")
    if args.quantize in NEED_SAMPLES and not args.samples:
        raise ValueError(
            f"--quantize {args.quantize} needs samples for the scales of the activations. Give "
            "--samples FILE.npz, a few hundred samples like the model's inputs in production."
        )
    if args.quantize in NEED_SAMPLES and args.step:
        raise ValueError(
            f"--quantize {args.quantize} cannot be combined with --step. For streams, export a "
            "second file that has only the step signature: --signature step."
        )
    with_signature = all("signature" in formats[name].options for name in args.format)
    if args.signature and args.step is False and with_signature:
        raise ValueError(
            "--signature step cannot be combined with --no-step. Remove one of the two options."
        )


def _require_new_artifacts(args: argparse.Namespace) -> None:
    """Raise FileExistsError if an exported file exists already, unless --force is given."""
    formats = known_formats()
    for name in args.format:
        target = formats[name].target(pathlib.Path(args.to), args.version)
        RUNTIMES[name].check_path(target)
        if (target.exists() or target.is_symlink()) and not args.force:
            advice = "choose another --to, or --force"
            if args.version is not None:
                advice = "give a higher --version"
            raise FileExistsError(f"{target} exists; {advice}.")
