"""Run an exported file on its golden cases, and compare the outputs with the expected outputs.

    python keras_norm_verify.py model.tflite

`keras_norm.export` stores golden cases with each file: inputs, expected outputs, tolerances and a
hash of the file. This module needs NumPy and the runtime of the file: LiteRT for TFLite files,
TensorFlow for SavedModels. It imports nothing else from keras_norm, so this single file can be
copied to a device.

Exit status: 0 the outputs are the expected outputs; 1 an output differs, or the file was changed;
2 the file was not run.
"""

import dataclasses
import hashlib
import io
import json
import math
import pathlib
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

VERSION = 1
PASSED, FAILED, WRONG_USE = 0, 1, 2

# Places of the golden cases: a file in the SavedModel's folder; a file beside the TFLite file, with
# this suffix; or an archive at the end of the TFLite file.
IN_FOLDER = pathlib.PurePath("assets.extra", "golden.npz")
BESIDE = ".golden.npz"
INSIDE = "golden.npz"
# Files and folders of a SavedModel that are hashed. Other programs may add files to the folder.
COMPUTING = ("saved_model.pb", "fingerprint.pb", "variables", "assets")

# Golden cases take a few kilobytes as a rule. The limits protect against a small file that unpacks
# to gigabytes.
MOST_BYTES = 256 * 2**20  # in the file of the golden cases, packed and unpacked
MOST_CHARACTERS = 2**22  # in the JSON text
MOST_PRINTED = 2000  # characters of a path or an error
# First bytes of .npz and .npy files.
ARCHIVE, ARRAY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"

Arrays = dict[str, np.ndarray]
# Function from a signature's name and its inputs to its outputs.
Run = Callable[[str, Arrays], Mapping[str, np.ndarray]]


class GoldenCasesError(ValueError):
    """The golden cases are missing or unusable, or the runtime of the file is missing."""


@dataclasses.dataclass(frozen=True)
class GoldenCase:
    """A golden case: the inputs of a call, or of a stream of calls, and the expected outputs.

    Attributes:
        name: text such as "batch 3, length 7, padded left".
        signature: name of the signature to call.
        inputs: arrays by name. The sequences of a stream have the shape (batch, time, ...).
        expected: expected outputs by name.
        atol: absolute tolerance of each expected output, by name.
        sequences: names of the inputs of a stream that are passed one timestep at a time; empty for
            a single call.
        states: names of the inputs of a stream that get the outputs of the previous timestep.
        sequence_outputs: names of the outputs of a stream that are compared at every timestep,
            (batch, time, ...). All other outputs are compared at the last timestep.
    """

    name: str
    signature: str
    inputs: Arrays
    expected: Arrays
    atol: dict[str, float]
    sequences: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    sequence_outputs: tuple[str, ...] = ()

    def compute_outputs(self, run: Run) -> Arrays:
        """Compute the outputs of a file for the inputs of the case.

        Args:
            run: function from a signature's name and its inputs to its outputs.
        """
        if not self.sequences:
            return dict(run(self.signature, self.inputs))
        states = {name: self.inputs[name] for name in self.states}
        steps = []
        for t in range(self.inputs[self.sequences[0]].shape[1]):
            at_t = {n: a[:, t] if n in self.sequences else a for n, a in self.inputs.items()}
            outputs = dict(run(self.signature, at_t | states))
            if missing := set(self.states) - outputs.keys():
                raise ValueError(f"the outputs lack the state {', '.join(sorted(missing))}")
            states = {name: outputs.pop(name) for name in self.states}
            steps.append(outputs)
        return {
            name: np.stack([outputs[name] for outputs in steps], axis=1)
            if name in self.sequence_outputs
            else steps[-1][name]
            for name in steps[-1]
        }


@dataclasses.dataclass(frozen=True)
class GoldenCases:
    """The golden cases of an exported file.

    Attributes:
        model: name of the Keras model.
        reference: source of the expected outputs, as the object of "computes": 'what the Keras
            model "digits" does'.
        versions: versions of the packages that wrote the file, by name.
        hashes: SHA-256 hashes, by the name of each file in a SavedModel's folder; for a TFLite file
            by "".
        cases: the golden cases.
    """

    model: str
    reference: str
    versions: dict[str, str]
    hashes: dict[str, str]
    cases: tuple[GoldenCase, ...]

    def to_bytes(self) -> bytes:
        """Write the golden cases as an .npz file: the arrays, and a JSON text named `golden_cases`.

        Raises:
            GoldenCasesError: the file is larger than `from_bytes` reads.
        """
        fields = dataclasses.asdict(self)
        arrays: Arrays = {}
        for k, case in enumerate(fields["cases"]):
            for part in ("inputs", "expected"):
                arrays |= {f"{k}/{part}/{name}": array for name, array in case[part].items()}
                case[part] = list(case[part])
        file = io.BytesIO()
        text = np.array(json.dumps({"version": VERSION} | fields))
        np.savez_compressed(file, allow_pickle=False, **{"golden_cases": text} | arrays)
        with zipfile.ZipFile(file) as archive:
            _require_size(sum(entry.file_size for entry in archive.infolist()))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "GoldenCases":
        """Read the golden cases that `to_bytes` wrote.

        Args:
            content: bytes of the .npz file.

        Raises:
            GoldenCasesError: the golden cases are damaged, too large, of a newer version, or
                compare nothing.
        """
        try:
            arrays = _read_arrays(content)
            _require("golden_cases" in arrays, "the file has no JSON text")
            text = arrays.pop("golden_cases")
            _require(text.dtype.kind == "U" and text.shape == (), "the JSON text is not a string")
            _require(text.nbytes <= 4 * MOST_CHARACTERS, "the JSON text is too long")
            fields = json.loads(str(text), object_pairs_hook=_without_repeats)
            _require(isinstance(fields, dict), "the JSON text is not a dict")
            version = fields.pop("version", None)
            _require(
                type(version) is int and version > 0, "the version is not an integer of 1 or more"
            )
            if version > VERSION:
                raise GoldenCasesError(
                    f"the golden cases have version {version}, and this keras-norm reads version "
                    f"{VERSION}. Update keras-norm"
                )
            _require_fields(fields, cls, "the JSON text")
            _require_texts(fields, ("model", "reference"))
            for name in ("versions", "hashes"):
                _require(isinstance(fields[name], dict), f"{name} is not a dict")
                _require_texts(fields[name], fields[name])
            _require(isinstance(fields["cases"], list), "cases is not a list")
            cases = [_read_case(k, own, arrays) for k, own in enumerate(fields.pop("cases"))]
            require_comparisons(cases)
            return cls(**fields, cases=tuple(cases))
        except GoldenCasesError:
            raise
        # The parsers of damaged files may raise any exception.
        except Exception as error:
            raise _damaged(_first_line(error)) from error


def require_comparisons(cases: Sequence[GoldenCase]) -> None:
    """Raise GoldenCasesError for golden cases that every file would pass.

    The tolerance of an output must be smaller than its largest expected value in all cases, or than
    1 if all expected values are 0. An output that is tiny in one case is compared in another case.

    Args:
        cases: the golden cases.
    """
    largest: dict[str, float] = {}
    if not cases:
        raise GoldenCasesError(
            "the golden cases compare nothing: the list of cases is empty. Export the model again"
        )
    for case in cases:
        if not case.expected:
            raise _compares_nothing(case, "the case has no expected outputs")
        for name, expected in case.expected.items():
            if not expected.size:
                raise _compares_nothing(case, f"output '{printable(name)}' is empty")
            if expected.dtype.kind == "f":
                if np.isnan(expected).all():
                    values = f"every expected value of output '{printable(name)}' is NaN"
                    raise _compares_nothing(case, values, " with samples whose outputs are numbers")
                sizes = np.abs(expected[np.isfinite(expected)].astype("float64"))
                largest[name] = max(largest.get(name, 0.0), sizes.max(initial=0.0))
    for case in cases:
        for name in case.expected.keys() & largest.keys():
            most = largest[name] or 1.0
            atol = case.atol.get(name, math.inf)
            if not atol < most:
                raise _compares_nothing(
                    case,
                    f"the tolerance of output '{printable(name)}' is {atol:.3g}, and its largest "
                    f"expected value is {largest[name]:.3g}",
                )


def _compares_nothing(case: GoldenCase, why: str, how: str = "") -> GoldenCasesError:
    name = printable(case.name)
    return GoldenCasesError(
        f"the golden cases compare nothing in case {name}: {why}. Export the model again{how}"
    )


def _read_case(k: int, fields: Any, arrays: Arrays) -> GoldenCase:
    """Read a golden case, and check the type of each field.

    Args:
        k: number of the case.
        fields: fields of the case in the JSON text.
        arrays: arrays of the .npz file.
    """
    _require_fields(fields, GoldenCase, f"case {k}")
    _require_texts(fields, ("name", "signature"))
    for part in ("inputs", "expected", "sequences", "states", "sequence_outputs"):
        names = fields[part]
        listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
        _require(listed and len({*names}) == len(names), f"case {k}: {part} is not a list of names")
    for part in ("inputs", "expected"):
        for name in fields[part]:
            array = arrays.get(f"{k}/{part}/{name}")
            numeric = array is not None and array.dtype.kind in "biuf"
            _require(numeric, f"case {k}: '{printable(name)}' has no array of numbers")
        fields[part] = {name: arrays[f"{k}/{part}/{name}"] for name in fields[part]}
    inputs, tolerances = fields["inputs"], fields["atol"]
    _require(isinstance(tolerances, dict), f"case {k}: atol is not a dict")
    for name in fields["expected"]:
        atol = tolerances.get(name)
        _require(
            type(atol) in (int, float) and 0 <= atol < math.inf,
            f"case {k}: the tolerance of output '{printable(name)}' is "
            f"{printable(repr(atol))}, not a finite number of 0 or more",
        )
    for name in (*fields["sequences"], *fields["states"]):
        _require(name in inputs, f"case {k}: '{printable(name)}' is not an input")
    for name in fields["sequence_outputs"]:
        _require(name in fields["expected"], f"case {k}: '{printable(name)}' is not an output")
    usable = fields["sequences"] or not fields["states"]
    _require(bool(usable), f"case {k} has states, but no input with timesteps")
    steps = {inputs[name].shape[1:2] for name in fields["sequences"]}
    equal = len(steps) <= 1 and not steps & {(), (0,)}
    _require(equal, f"case {k}: the sequences have no timesteps, or different numbers of timesteps")
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return GoldenCase(**values)


def _read_arrays(content: bytes) -> Arrays:
    """Read the arrays of an .npz file by name, and unpack at most `MOST_BYTES`."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _require_size(sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            npy = io.BytesIO(_unpack(archive, entry))
            name = entry.filename.removesuffix(".npy")
            _require(name not in arrays, f"the array '{printable(name)}' occurs twice")
            arrays[name] = np.lib.format.read_array(npy, allow_pickle=False)
    return arrays


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Unpack an entry of an archive, but not more bytes than its header declares."""
    _require_size(entry.file_size)
    # `read` unpacks whole blocks of other compressions, and a block may be huge.
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    _require(entry.compress_type in methods, "NumPy does not write their compression")
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _require_size(size: int) -> None:
    if size > MOST_BYTES:
        raise GoldenCasesError(
            f"the golden cases take {size:,} bytes, more than the limit of {MOST_BYTES:,}. Export "
            "with shorter samples, or with golden_cases=False"
        )


def _damaged(problem: str) -> GoldenCasesError:
    return GoldenCasesError(
        f"the golden cases are damaged: {problem.rstrip('.')}. Export the model again"
    )


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise _damaged(problem)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of JSON, in which no key stands twice: readers differ in which value they take."""
    fields: dict[str, Any] = {}
    for key, value in pairs:
        _require(key not in fields, f"the text has the key '{printable(key)}' twice")
        fields[key] = value
    return fields


def _require_fields(fields: Any, kind: type, where: str) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    fits = isinstance(fields, dict) and set(fields) == names
    _require(fits, f"the fields of {where} are not {', '.join(sorted(names))}")


def _require_texts(fields: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        _require(isinstance(fields[name], str), f"'{printable(name)}' is not text")


def read_golden_cases(path: pathlib.Path, beside: pathlib.Path | None = None) -> GoldenCases:
    """Find and read the golden cases of a file.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        beside: file of the golden cases; None to look where exporters write them.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable.
    """
    path = resolved(path)
    usual = path / IN_FOLDER if path.is_dir() else path.with_name(path.name + BESIDE)
    try:
        if beside is not None:
            require_file(beside)
        if (beside or usual).is_file():
            _require_size((beside or usual).stat().st_size)
            return GoldenCases.from_bytes((beside or usual).read_bytes())
        if _archive_offset(path) is not None:
            return GoldenCases.from_bytes(_unpack_inside(path))
    except OSError as error:
        raise GoldenCasesError(_first_line(error)) from error
    raise GoldenCasesError(
        f"{path} has no golden cases: there is no {usual.name}. Give their file, or export again"
    )


def require_file(path: pathlib.Path) -> None:
    """Raise OSError for a path that is not a readable file.

    Args:
        path: any path.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file.")
        if not path.is_file():
            raise OSError(f"{path} is not a file.")
        with path.open("rb"):
            pass
    except OSError as error:
        if error.strerror is None:  # raised above
            raise
        raise type(error)(f"{path} cannot be read: {error.strerror}.") from error


def require_arrays(path: pathlib.Path) -> None:
    """Raise OSError or ValueError for a path that is not an .npz or .npy file.

    Args:
        path: any path.
    """
    try:
        require_file(path)
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{error} Give the .npz or .npy files in it.") from error
    with path.open("rb") as file:
        begin = file.read(len(ARRAY))
    if not begin.startswith((*ARCHIVE, ARRAY)):
        raise ValueError(
            f"{path} is not an .npz or .npy file. Write one with "
            "numpy.savez(file, input_name=array)."
        )


def resolved(path: pathlib.Path) -> pathlib.Path:
    """Return the path of a SavedModel or TFLite file; from a folder of versions, the highest.

    Args:
        path: a SavedModel's folder, a folder of numbered versions, or a TFLite or ONNX file.

    Raises:
        GoldenCasesError: the path does not exist, or cannot be read.
    """
    try:
        if not path.exists():
            raise GoldenCasesError(f"{path}: no such file or folder")
        if path.is_dir() and not (path / "saved_model.pb").is_file():
            found = [file.parent for file in path.glob("*/saved_model.pb")]
            versions = {int(folder.name): folder for folder in found if folder.name.isdecimal()}
            return versions[max(versions)] if versions else path
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {error.strerror}") from error
    return path


def hashes(path: pathlib.Path) -> dict[str, str]:
    """Hash the files of a SavedModel that take part in computing, or a TFLite or ONNX file.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file. Golden cases at the end of a TFLite
            file are not hashed.
    """
    if path.is_dir():
        return {
            file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.relative_to(path).parts[0] in COMPUTING
        }
    return {"": hashlib.sha256(path.read_bytes()[: _archive_offset(path)]).hexdigest()}


def _archive_offset(path: pathlib.Path) -> int | None:
    """Return the offset of the archive of golden cases at the end of a file; None without one."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            archive.getinfo(INSIDE)
            return min(entry.header_offset for entry in archive.infolist())
    # The parser may raise any exception. Then the bytes at the end belong to the model.
    except Exception:
        return None


def _unpack_inside(path: pathlib.Path) -> bytes:
    """Unpack the golden cases at the end of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _unpack(archive, archive.getinfo(INSIDE))
    except GoldenCasesError:
        raise
    # The parser of a damaged archive may raise any exception.
    except Exception as error:
        raise _damaged(_first_line(error)) from error


def failures(golden_cases: GoldenCases, run: Run) -> Iterator[str]:
    """List the failures of a file, with one line for each failed output of each case.

    Args:
        golden_cases: the golden cases.
        run: the file, as a function from a signature's name and its inputs to its outputs.
    """
    for case in golden_cases.cases:
        try:
            actual = {n: np.asarray(array) for n, array in case.compute_outputs(run).items()}
        # A runtime may raise any exception for a file that it cannot run.
        except Exception as error:
            yield f"fails to run {printable(case.name)}: {_first_line(error)}"
            continue
        for name, expected in case.expected.items():
            if name not in actual:
                yield f"has no output '{printable(name)}'"
            elif difference := _difference(expected, actual[name], case.atol[name]):
                yield f"at {printable(case.name)}: output '{printable(name)}' {difference}"


def _difference(expected: np.ndarray, actual: np.ndarray, atol: float) -> str:
    """Describe the difference of an output, or return ""; NaN equals an expected NaN."""
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind not in "biuf":
        return f"has the dtype {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.kind != "f":
        # Python compares a large integer with a float exactly. NumPy would round the integer.
        count = int(np.sum(actual.astype(object) != expected.astype(object)))
        return f"differs in {count} of {expected.size} values" if count else ""
    e, a = expected.astype("float64"), actual.astype("float64")
    with np.errstate(invalid="ignore"):
        off = np.where((e == a) | (np.isnan(e) & np.isnan(a)), 0.0, np.abs(a - e))
    off = np.where(np.isnan(off), np.inf, off)
    if not off.size or off.max() <= atol:
        return ""
    index = np.unravel_index(int(off.argmax()), e.shape)
    where = ", ".join(map(str, index))
    return (
        f"is {a[index]:.6g}, expected {e[index]:.6g}, at ({where}): the difference is larger than "
        f"the tolerance {atol:.2g}"
    )


def open_run(path: pathlib.Path) -> Run:
    """Load a file in its runtime.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.

    Raises:
        GoldenCasesError: the runtime is not installed.
        Exception: any exception of the runtime, if it cannot load the file.
    """
    if path.is_dir():
        return _saved_model(path)
    return _onnx(path) if path.suffix == ".onnx" else _tflite(path)


def _tflite(path: pathlib.Path) -> Run:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise GoldenCasesError(
            f"{path} needs LiteRT, which is not installed: pip install ai-edge-litert"
        ) from error
    interpreter = Interpreter(model_path=str(path))
    runners: dict[str, Any] = {}

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in runners:
            runners[signature] = interpreter.get_signature_runner(signature)
        return runners[signature](**inputs)

    return run


def _onnx(path: pathlib.Path) -> Run:
    try:
        import onnxruntime
    except ImportError as error:
        raise GoldenCasesError(f"{path} runs in ONNX Runtime: pip install onnxruntime") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(signature: str, inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _saved_model(path: pathlib.Path) -> Run:
    try:
        import tensorflow as tf
    except ImportError as error:
        raise GoldenCasesError(
            f"{path} needs TensorFlow, which is not installed: pip install tensorflow"
        ) from error
    loaded = tf.saved_model.load(str(path))

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in loaded.signatures:
            raise ValueError(f"the SavedModel has no signature {signature}")
        function = loaded.signatures[signature]
        specs = function.structured_input_signature[1]
        outputs = function(**{n: tf.cast(a, specs[n].dtype) for n, a in inputs.items()})
        wide = {n: tf.cast(t, "float32") for n, t in outputs.items() if t.dtype == tf.bfloat16}
        return {name: tensor.numpy() for name, tensor in (outputs | wide).items()}

    return run


def verify(
    path: str | pathlib.Path,
    golden_cases: GoldenCases | str | pathlib.Path | None = None,
    run: Run | None = None,
) -> list[str]:
    """Run a file on its golden cases, and compare the outputs.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        golden_cases: the golden cases, or their file; None to look where exporters write them.
        run: another runtime, as a function from a signature's name and its inputs to its outputs.

    Returns:
        The failures, one line each; an empty list if the file passes.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, or the runtime is not installed.

    Example:
    ```python
    assert not keras_norm_verify.verify("model.tflite")
    ```
    """
    path = resolved(pathlib.Path(path))
    if not isinstance(golden_cases, GoldenCases):
        golden_cases = read_golden_cases(
            path, None if golden_cases is None else pathlib.Path(golden_cases)
        )
    require_comparisons(golden_cases.cases)
    try:
        now = hashes(path)
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {_first_line(error)}") from error
    try:
        found = list(failures(golden_cases, run or open_run(path)))
    except GoldenCasesError:
        raise
    # A runtime may raise any exception for a damaged file.
    except Exception as error:
        found = [f"does not load: {_first_line(error)}"]
    changed = [
        n for n in sorted(now | golden_cases.hashes) if now.get(n) != golden_cases.hashes.get(n)
    ]
    if changed:
        names = ", ".join(printable(name or path.name) for name in changed)
        now_computes = "no longer computes" if found else "still computes"
        found.insert(
            0,
            f"was changed after its golden cases were written, and {now_computes} the expected "
            f"outputs ({names})",
        )
    return found


def report(path: str, golden_cases: str | None = None) -> int:
    """Verify a file, print the result, and return the exit status.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        golden_cases: file of the golden cases; None to look where exporters write them.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, the runtime is not installed,
            or the result cannot be printed.
    """
    golden = read_golden_cases(
        pathlib.Path(path), None if golden_cases is None else pathlib.Path(golden_cases)
    )
    found = verify(path, golden)
    lines = [f"FAIL: {printable(path, MOST_PRINTED)} {line}" for line in found]
    if not found:
        result = f"{printable(path, MOST_PRINTED)} computes {printable(golden.reference)}"
        lines = [f"PASS: {result}, in {len(golden.cases)} cases:"]
        lines += [f"  {printable(case.signature)}: {printable(case.name)}" for case in golden.cases]
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        sys.stdout = None  # at exit Python would try to write the text again
        raise GoldenCasesError(f"the result cannot be written: {error.strerror}") from error
    return FAILED if found else PASSED


def printable(text: str, most: int = 100) -> str:
    r"""Make text from a file safe to print in a terminal, as one line.

    Line breaks, escape sequences and marks of the writing direction become escapes such as "\x1b".
    Letters of all languages do not change.

    Args:
        text: any text.
        most: largest number of characters to return.
    """
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def escape_unknown_letters() -> None:
    """Let the standard output escape characters that are not in its encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _first_line(error: Exception) -> str:
    message = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    line = next(iter(message.strip().splitlines()), type(error).__name__)
    return printable(line, MOST_PRINTED)


def main(arguments: Sequence[str]) -> int:
    """Verify a file from the command line.

    Args:
        arguments: path of the file, and optionally the path of its golden cases.

    Returns:
        The exit status.
    """
    if not 1 <= len(arguments) <= 2:
        print("usage: python keras_norm_verify.py FILE [GOLDEN_CASES.npz]", file=sys.stderr)
        return WRONG_USE
    escape_unknown_letters()
    try:
        return report(*arguments)
    except GoldenCasesError as error:
        print(f"keras-norm: {printable(str(error), MOST_PRINTED)}", file=sys.stderr)
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
