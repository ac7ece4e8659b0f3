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
import pathlib
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
        """The proof as an .npz file: arrays, and `proof`, a JSON text, beside them."""
        fields = dataclasses.asdict(self)
        arrays: Arrays = {}
        for k, case in enumerate(fields["cases"]):
            for part in ("inputs", "expected"):
                arrays |= {f"{k}/{part}/{name}": array for name, array in case[part].items()}
                case[part] = list(case[part])
        file = io.BytesIO()
        text = np.array(json.dumps({"version": VERSION} | fields))
        np.savez_compressed(file, allow_pickle=False, **{"proof": text} | arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Proof":
        """Read what `to_bytes` wrote.

        Args:
            content: of the .npz file.

        Raises:
            ProofError: it is damaged, or of a version that this module does not know.
        """
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                fields = json.loads(str(arrays["proof"]))
                if fields.pop("version") > VERSION:
                    raise ProofError("the proof is of a newer version: update keras-norm")
                cases = []
                for k, own in enumerate(fields.pop("cases")):
                    for part in ("inputs", "expected"):
                        own[part] = {name: arrays[f"{k}/{part}/{name}"] for name in own[part]}
                    listed = {n: tuple(v) for n, v in own.items() if isinstance(v, list)}
                    cases.append(ProvenCase(**own | listed))
                if not cases or any(set(c.expected) - set(c.atol) for c in cases):
                    raise ProofError("the proof is damaged: it has no cases, or no tolerances")
                if not isinstance(fields["hashes"], dict):
                    raise ProofError("the proof is damaged: it has no hashes")
                return cls(**fields, cases=tuple(cases))
        except ProofError:
            raise
        # Whatever its parsers raise.
        except Exception as error:
            raise ProofError(f"the proof is damaged: {_first_line(error)}") from error


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
        if (beside or usual).is_file():
            return Proof.from_bytes((beside or usual).read_bytes())
        if beside is not None:
            raise ProofError(f"{beside}: no such file, or a folder")
        if (inside := _inside(path)) is not None:
            return Proof.from_bytes(inside[1])
    except OSError as error:
        raise ProofError(f"the proof of {path} cannot be read: {_first_line(error)}") from error
    raise ProofError(f"{path} has no proof with it, where {usual.name} would be")


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
        raise ProofError(f"{path} cannot be read: {_first_line(error)}") from error
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
            return start, archive.read(INSIDE)
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
            actual = case.answer(run)
        # Whatever a runtime raises, the file does not run here.
        except Exception as error:
            yield f"does not run {case.name}: {_first_line(error)}"
            continue
        for name, expected in case.expected.items():
            if name not in actual:
                yield f"lacks the output {name!r}"
            elif wrong := _difference(expected, actual[name], case.atol[name]):
                yield f"at {case.name}: output {name!r} {wrong}"


def _difference(expected: np.ndarray, actual: Any, atol: float) -> str:
    """What is wrong with an output, or ""; NaN is right where NaN is expected."""
    actual = np.asarray(actual)
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape} for {expected.shape}"
    if expected.dtype.kind != "f":
        count = int(np.sum(actual != expected))
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
        names = ", ".join(name or path.name for name in changed)
        then = "computes something else now" if found else "computes the same still"
        found.insert(0, f"was changed after its proof was written, and {then} ({names})")
    return found


def report(path: str, proof: str | None = None) -> int:
    """Verify a file, print what came of it, and give the exit status.

    Args:
        path: a SavedModel's folder, or a TFLite file.
        proof: where its proof is; None for where exporters put it.

    Raises:
        ProofError: as `verify`.
    """
    known = read_proof(pathlib.Path(path), None if proof is None else pathlib.Path(proof))
    found = verify(path, known)
    for line in found:
        print(f"FAIL: {path} {line}")
    if not found:
        print(f"PASS: {path} computes {known.reference}, in {len(known.cases)} cases:")
        for case in known.cases:
            print(f"  {case.signature}: {case.name}")
    return FAILED if found else PASSED


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


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
    try:
        return report(*arguments)
    except ProofError as error:
        print(f"keras-norm: {error}", file=sys.stderr)
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
