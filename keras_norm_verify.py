"""Run an exported file on the cases that were written with it: does it compute here what it should?

    python keras_norm_verify.py model.tflite

`keras_norm.export` writes a proof with each file: inputs, what comes out, how far off that may be,
and a hash of the file. This module needs NumPy, and the runtime of the file: LiteRT for TFLite
files, TensorFlow for SavedModels. It imports nothing else of keras_norm, so that a test on a device
can have a copy of it.

Exit status: 0 the file computes what was proven, 1 it does not, or was changed, 2 nothing was run.
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

# Where a proof stands: in a SavedModel; beside a TFLite file, added to its name; at its end.
IN_FOLDER = pathlib.PurePath("assets.extra", "proof.npz")
BESIDE = ".proof.npz"
# What takes part in computing, of a SavedModel's folder: others may leave files of theirs there.
COMPUTING = ("saved_model.pb", "fingerprint.pb", "variables", "assets")
INSIDE = "proof.npz"

# Golden cases are a few kilobytes as a rule; a small file can claim gigabytes.
MOST_BYTES = 256 * 2**20  # of their file, and of its arrays
MOST_CHARACTERS = 2**22  # of the JSON text
MOST_PRINTED = 2000  # characters of a path or of an error
# How the two kinds of files of arrays begin.
ARCHIVE, ARRAY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"

Arrays = dict[str, np.ndarray]
# From the name of a signature and its inputs to its outputs.
Run = Callable[[str, Arrays], Mapping[str, np.ndarray]]


class ProofError(ValueError):
    """There is no proof, or none that can be used; or no runtime for the file."""


@dataclasses.dataclass(frozen=True)
class ProvenCase:
    """A call, and what comes of it.

    Attributes:
        name: "batch 3, length 7, padded left".
        signature: what is called.
        inputs: arrays by name; those of a stream have time, (batch, time, ...), or are states.
        expected: arrays by name.
        atol: how far each output of `expected` may be off.
        sequences: names of the inputs that a stream is cut into timesteps of; empty for one call.
        states: names of inputs that are fed back from the outputs.
        sequence_outputs: names of the outputs of all timesteps, (batch, time, ...); of the others
            the last one is compared.
    """

    name: str
    signature: str
    inputs: Arrays
    expected: Arrays
    atol: dict[str, float]
    sequences: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    sequence_outputs: tuple[str, ...] = ()

    def answer(self, run: Run) -> Arrays:
        """What a file gives for the inputs.

        Args:
            run: from a signature's name and its inputs to its outputs.
        """
        if not self.sequences:
            return dict(run(self.signature, self.inputs))
        states = {name: self.inputs[name] for name in self.states}
        answers = []
        for t in range(self.inputs[self.sequences[0]].shape[1]):
            at_t = {n: a[:, t] if n in self.sequences else a for n, a in self.inputs.items()}
            outputs = dict(run(self.signature, at_t | states))
            if missing := set(self.states) - outputs.keys():
                raise ValueError(f"the outputs lack the state {', '.join(sorted(missing))}")
            states = {name: outputs.pop(name) for name in self.states}
            answers.append(outputs)
        return {
            name: np.stack([answer[name] for answer in answers], axis=1)
            if name in self.sequence_outputs
            else answers[-1][name]
            for name in answers[-1]
        }


@dataclasses.dataclass(frozen=True)
class Proof:
    """What an exported file is to compute.

    Attributes:
        model: name of the Keras model.
        reference: what is expected, such as 'what the Keras model "digits" does'.
        versions: of the packages that wrote the file, by name.
        hashes: SHA-256 of each file of a SavedModel by its name in the folder; of a TFLite file "".
        cases: what is run.
    """

    model: str
    reference: str
    versions: dict[str, str]
    hashes: dict[str, str]
    cases: tuple[ProvenCase, ...]

    def to_bytes(self) -> bytes:
        """The proof as an .npz file: arrays, and `proof`, a JSON text, beside them.

        Raises:
            ProofError: it is larger than `from_bytes` reads.
        """
        fields = dataclasses.asdict(self)
        arrays: Arrays = {}
        for k, case in enumerate(fields["cases"]):
            for part in ("inputs", "expected"):
                arrays |= {f"{k}/{part}/{name}": array for name, array in case[part].items()}
                case[part] = list(case[part])
        file = io.BytesIO()
        text = np.array(json.dumps({"version": VERSION} | fields))
        np.savez_compressed(file, allow_pickle=False, **{"proof": text} | arrays)
        with zipfile.ZipFile(file) as archive:
            _require_size(sum(entry.file_size for entry in archive.infolist()))
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Proof":
        """Read the golden cases that `to_bytes` wrote.

        Args:
            content: of the .npz file.

        Raises:
            ProofError: they are damaged, too large, of a version that this module does not know,
                or they compare nothing.
        """
        try:
            arrays = _read_arrays(content)
            _require("proof" in arrays, "the file holds arrays alone")
            text = arrays.pop("proof")
            _require(text.dtype.kind == "U" and text.shape == (), "they hold no text")
            _require(text.nbytes <= 4 * MOST_CHARACTERS, "their text is too long")
            fields = json.loads(str(text), object_pairs_hook=_without_repeats)
            _require(isinstance(fields, dict), "the text is not a dict")
            version = fields.pop("version", None)
            _require(
                type(version) is int and version > 0, "the version is not a whole number from 1 on"
            )
            if version > VERSION:
                raise ProofError("the golden cases are of a newer version: update keras-norm")
            _require_fields(fields, cls, "the text")
            _require_texts(fields, ("model", "reference"))
            for name in ("versions", "hashes"):
                _require(isinstance(fields[name], dict), f"{name} is not a dict")
                _require_texts(fields[name], fields[name])
            _require(isinstance(fields["cases"], list), "cases is not a list")
            cases = [_read_case(k, own, arrays) for k, own in enumerate(fields.pop("cases"))]
            require_comparisons(cases)
            return cls(**fields, cases=tuple(cases))
        except ProofError:
            raise
        # Whatever its parsers raise.
        except Exception as error:
            raise _damaged(_first_line(error)) from error


def require_comparisons(cases: Sequence[ProvenCase]) -> None:
    """Raise ProofError for golden cases that every file would pass.

    An output that is tiny in one case may be compared in another. So the tolerance of a case is
    held against the largest expected value of all cases, or 1 where all are 0.

    Args:
        cases: the golden cases.
    """
    largest: dict[str, float] = {}
    if not cases:
        raise ProofError("the golden cases compare nothing: there are none. Export the model again")
    for case in cases:
        if not case.expected:
            raise _compares_nothing(case, "it has no expected outputs")
        for name, expected in case.expected.items():
            if not expected.size:
                raise _compares_nothing(case, f"output '{printable(name)}' is empty")
            if expected.dtype.kind == "f":
                if np.isnan(expected).all():
                    values = f"every expected value of output '{printable(name)}' is NaN"
                    raise _compares_nothing(case, values, " with samples that give numbers")
                sizes = np.abs(expected[np.isfinite(expected)].astype("float64"))
                largest[name] = max(largest.get(name, 0.0), sizes.max(initial=0.0))
    for case in cases:
        for name in case.expected.keys() & largest.keys():
            most = largest[name] or 1.0
            atol = case.atol.get(name, math.inf)
            if not atol < most:
                raise _compares_nothing(
                    case,
                    f"output '{printable(name)}' may be off by {atol:.3g}, and its largest "
                    f"expected value is {largest[name]:.3g}",
                )


def _compares_nothing(case: ProvenCase, why: str, how: str = "") -> ProofError:
    name = printable(case.name)
    return ProofError(
        f"the golden cases compare nothing at {name}: {why}. Export the model again{how}"
    )


def _read_case(k: int, fields: Any, arrays: Arrays) -> ProvenCase:
    """One golden case, each of whose fields is what its class says.

    Args:
        k: its number.
        fields: of the JSON text.
        arrays: of the .npz file.
    """
    _require_fields(fields, ProvenCase, f"case {k}")
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
    streams = fields["sequences"] or not fields["states"]
    _require(bool(streams), f"case {k} has states, and no input with timesteps")
    steps = {inputs[name].shape[1:2] for name in fields["sequences"]}
    alike = len(steps) <= 1 and not steps & {(), (0,)}
    _require(alike, f"case {k}: the sequences have no timesteps, or different numbers of them")
    own: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return ProvenCase(**own)


def _read_arrays(content: bytes) -> Arrays:
    """The arrays of an .npz file by name, of which no more than `MOST_BYTES` is unpacked."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _require_size(sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            npy = io.BytesIO(_unpack(archive, entry))
            name = entry.filename.removesuffix(".npy")
            _require(name not in arrays, f"the array '{printable(name)}' is there twice")
            arrays[name] = np.lib.format.read_array(npy, allow_pickle=False)
    return arrays


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """An entry of an archive, which cannot be larger than it says."""
    _require_size(entry.file_size)
    # Of any other compression `read` unpacks a block as a whole, whatever its size.
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    _require(entry.compress_type in kinds, "they are compressed as NumPy never does")
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _require_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ProofError(
            f"the golden cases take {size:,} bytes, and at most {MOST_BYTES:,} are read. Export "
            "with shorter samples, or with proof=False"
        )


def _damaged(problem: str) -> ProofError:
    return ProofError(
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
    _require(fits, f"{where} has other fields than {', '.join(sorted(names))}")


def _require_texts(fields: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        _require(isinstance(fields[name], str), f"'{printable(name)}' is not text")


def read_proof(path: pathlib.Path, beside: pathlib.Path | None = None) -> Proof:
    """Find and read the proof of a file.

    Args:
        path: a SavedModel's folder, or a TFLite file.
        beside: where the proof is; None for where exporters put it.

    Raises:
        ProofError: there is none, or it cannot be used.
    """
    path = resolved(path)
    usual = path / IN_FOLDER if path.is_dir() else path.with_name(path.name + BESIDE)
    try:
        if beside is not None:
            require_file(beside)
        if (beside or usual).is_file():
            _require_size((beside or usual).stat().st_size)
            return Proof.from_bytes((beside or usual).read_bytes())
        if (inside := _inside(path)) is not None:
            return Proof.from_bytes(inside[1])
    except OSError as error:
        raise ProofError(_first_line(error)) from error
    raise ProofError(f"{path} has no proof with it, where {usual.name} would be")


def require_file(path: pathlib.Path) -> None:
    """Raise OSError for a path that is no file, or cannot be read.

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
        if error.strerror is None:  # it is one of these
            raise
        raise type(error)(f"{path} cannot be read: {error.strerror}.") from error


def require_arrays(path: pathlib.Path) -> None:
    """Raise OSError or ValueError for a path that is no .npz or .npy file.

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
            f"{path} is no .npz or .npy file; write one by numpy.savez(file, input_name=array)."
        )


def resolved(path: pathlib.Path) -> pathlib.Path:
    """The SavedModel or TFLite file at a path: of a folder of numbered versions the highest.

    Args:
        path: a SavedModel's folder, a folder of versions, or a TFLite file.

    Raises:
        ProofError: there is nothing, or it cannot be looked at.
    """
    try:
        if not path.exists():
            raise ProofError(f"{path}: no such file or folder")
        if path.is_dir() and not (path / "saved_model.pb").is_file():
            found = [file.parent for file in path.glob("*/saved_model.pb")]
            versions = {int(folder.name): folder for folder in found if folder.name.isdecimal()}
            return versions[max(versions)] if versions else path
    except OSError as error:
        raise ProofError(f"{path} cannot be read: {error.strerror}") from error
    return path


def hashes(path: pathlib.Path) -> dict[str, str]:
    """The hashes that `Proof.hashes` holds: of all that takes part in computing.

    Args:
        path: a SavedModel's folder, or a TFLite file, with a proof at its end or without.
    """
    if path.is_dir():
        return {
            file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.relative_to(path).parts[0] in COMPUTING
        }
    inside = _inside(path)
    return {"": hashlib.sha256(path.read_bytes()[: inside and inside[0]]).hexdigest()}


def _inside(path: pathlib.Path) -> tuple[int, bytes] | None:
    """Where the archive at the end of a file begins, and the proof in it; None without one."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            start = min(entry.header_offset for entry in archive.infolist())
            return start, _unpack(archive, archive.getinfo(INSIDE))
    except ProofError:
        raise
    # Whatever a damaged archive makes of the parser: then it is a part of the file.
    except Exception:
        return None


def failures(proof: Proof, run: Run) -> Iterator[str]:
    """What is wrong with a file, one line for each output of each case.

    Args:
        proof: what it is to compute.
        run: the file: from the name of a signature and its inputs to its outputs.
    """
    for case in proof.cases:
        try:
            actual = {name: np.asarray(array) for name, array in case.answer(run).items()}
        # Whatever a runtime raises, the file does not run here.
        except Exception as error:
            yield f"does not run {printable(case.name)}: {_first_line(error)}"
            continue
        for name, expected in case.expected.items():
            if name not in actual:
                yield f"lacks the output '{printable(name)}'"
            elif wrong := _difference(expected, actual[name], case.atol[name]):
                yield f"at {printable(case.name)}: output '{printable(name)}' {wrong}"


def _difference(expected: np.ndarray, actual: np.ndarray, atol: float) -> str:
    """What is wrong with an output, or ""; NaN is right where NaN is expected."""
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape} for {expected.shape}"
    if actual.dtype.kind not in "biuf":
        return f"has the type {actual.dtype} for {expected.dtype}"
    if expected.dtype.kind != "f":
        # Python compares a large integer with a float exactly; NumPy rounds it to a float first.
        count = int(np.sum(actual.astype(object) != expected.astype(object)))
        return f"differs in {count} of {expected.size} values" if count else ""
    e, a = expected.astype("float64"), actual.astype("float64")
    with np.errstate(invalid="ignore"):
        off = np.where((e == a) | (np.isnan(e) & np.isnan(a)), 0.0, np.abs(a - e))
    off = np.where(np.isnan(off), np.inf, off)
    if not off.size or off.max() <= atol:
        return ""
    place = np.unravel_index(int(off.argmax()), e.shape)
    index = ", ".join(map(str, place))
    return f"is {a[place]:.6g} for {e[place]:.6g} at ({index}): off by more than {atol:.2g}"


def open_run(path: pathlib.Path) -> Run:
    """Load a file in its runtime.

    Args:
        path: a SavedModel's folder, or a TFLite file.

    Raises:
        ProofError: the runtime is not installed.
        Exception: what the runtime raises where it cannot load the file.
    """
    return _saved_model(path) if path.is_dir() else _tflite(path)


def _tflite(path: pathlib.Path) -> Run:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ProofError(f"{path} runs in LiteRT: pip install ai-edge-litert") from error
    interpreter = Interpreter(model_path=str(path))
    runners: dict[str, Any] = {}

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in runners:
            runners[signature] = interpreter.get_signature_runner(signature)
        return runners[signature](**inputs)

    return run


def _saved_model(path: pathlib.Path) -> Run:
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ProofError(f"{path} runs in TensorFlow: pip install tensorflow") from error
    loaded = tf.saved_model.load(str(path))

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in loaded.signatures:
            raise ValueError(f"there is no signature {signature}")
        function = loaded.signatures[signature]
        specs = function.structured_input_signature[1]
        outputs = function(**{n: tf.cast(a, specs[n].dtype) for n, a in inputs.items()})
        wide = {n: tf.cast(t, "float32") for n, t in outputs.items() if t.dtype == tf.bfloat16}
        return {name: tensor.numpy() for name, tensor in (outputs | wide).items()}

    return run


def verify(
    path: str | pathlib.Path,
    proof: Proof | str | pathlib.Path | None = None,
    run: Run | None = None,
) -> list[str]:
    """Run a file on the cases of its proof.

    Args:
        path: a SavedModel's folder, or a TFLite file.
        proof: it, or the file that it stands in; None for where exporters put it.
        run: another runtime: from the name of a signature and its inputs to its outputs.

    Returns:
        What is wrong, in lines; none where all is well.

    Raises:
        ProofError: there is no proof, or none that can be used; or no runtime.

    Example:
    ```python
    assert not keras_norm_verify.verify("model.tflite")
    ```
    """
    path = resolved(pathlib.Path(path))
    if not isinstance(proof, Proof):
        proof = read_proof(path, None if proof is None else pathlib.Path(proof))
    require_comparisons(proof.cases)
    try:
        now = hashes(path)
    except OSError as error:
        raise ProofError(f"{path} cannot be read: {_first_line(error)}") from error
    try:
        found = list(failures(proof, run or open_run(path)))
    except ProofError:
        raise
    # Whatever a runtime raises where a file is damaged.
    except Exception as error:
        found = [f"does not load: {_first_line(error)}"]
    changed = [n for n in sorted(now | proof.hashes) if now.get(n) != proof.hashes.get(n)]
    if changed:
        names = ", ".join(printable(name or path.name) for name in changed)
        then = "computes something else now" if found else "computes the same still"
        found.insert(0, f"was changed after its proof was written, and {then} ({names})")
    return found


def report(path: str, proof: str | None = None) -> int:
    """Verify a file, print what came of it, and give the exit status.

    Args:
        path: a SavedModel's folder, or a TFLite file.
        proof: where its proof is; None for where exporters put it.

    Raises:
        ProofError: as `verify`, or nothing can be printed.
    """
    known = read_proof(pathlib.Path(path), None if proof is None else pathlib.Path(proof))
    found = verify(path, known)
    lines = [f"FAIL: {printable(path, MOST_PRINTED)} {line}" for line in found]
    if not found:
        does = f"{printable(path, MOST_PRINTED)} computes {printable(known.reference)}"
        lines = [f"PASS: {does}, in {len(known.cases)} cases:"]
        lines += [f"  {printable(case.signature)}: {printable(case.name)}" for case in known.cases]
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        sys.stdout = None  # Python would try to write it once more
        raise ProofError(f"the result cannot be written: {error.strerror}") from error
    return FAILED if found else PASSED


def printable(text: str, most: int = 100) -> str:
    r"""Text from a file as one line in which a terminal sees nothing but characters.

    Line breaks, escape sequences and marks that turn the direction of writing are shown as escapes
    such as "\x1b"; letters of all languages stay.

    Args:
        text: any text.
        most: characters that are shown.
    """
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def escape_unknown_letters() -> None:
    """Let the standard output escape the letters of a name that its encoding does not have."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _first_line(error: Exception) -> str:
    said = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    line = next(iter(said.strip().splitlines()), type(error).__name__)
    return printable(line, MOST_PRINTED)


def main(arguments: Sequence[str]) -> int:
    """Verify the file that the arguments name: its path, and that of its proof if it is elsewhere.

    Args:
        arguments: of the command line.

    Returns:
        The exit status.
    """
    if not 1 <= len(arguments) <= 2:
        print("usage: python keras_norm_verify.py FILE [PROOF]", file=sys.stderr)
        return WRONG_USE
    escape_unknown_letters()
    try:
        return report(*arguments)
    except ProofError as error:
        print(f"keras-norm: {printable(str(error), MOST_PRINTED)}", file=sys.stderr)
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
