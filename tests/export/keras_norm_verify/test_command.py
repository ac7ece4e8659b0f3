"""`keras-norm verify` and `python -m keras_norm_verify`: output and exit status."""

import dataclasses
import io
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import keras_norm_cli
import keras_norm_verify
from keras_norm import export
from keras_norm_verify import golden_cases_file, read_golden_cases
from keras_norm_verify.__main__ import main
from keras_norm_verify.golden_cases_file import pack_golden_cases
from keras_norm_verify.printable import printable
from tests.export.keras_norm_verify.cases import golden_cases


@pytest.mark.parametrize(
    "command", [main, lambda paths: keras_norm_cli.main(["verify", *paths])], ids=["module", "CLI"]
)
def test_an_exported_file_passes_for_sequences_and_for_its_step_signature(
    command, exported, copied, capfd
):
    assert command([str(exported)]) == 0
    out = capfd.readouterr().out
    assert out.startswith("PASS")
    assert "serving_default: batch 1, length 4" in out
    assert "step: batch 3, length 7, timestep by timestep" in out
    copied.write_bytes(b"damaged")
    assert command([str(copied)]) == 1
    failures = "".join(f"FAIL: {copied}: {each}\n" for each in export.verify(str(copied)))
    assert capfd.readouterr().out == failures
    assert command(["x" * 300]) == 2
    error = f"keras-norm: {'x' * 300} cannot be read: File name too long\n"
    assert capfd.readouterr().err == error


SPOILT = {
    "no archive": lambda p: p.write_bytes(b"no archive"),
    "cut off": lambda p: p.write_bytes(p.read_bytes()[:-40]),
    "no JSON": lambda p: np.savez(p, golden_cases=np.array("[1, 2")),
    "other fields": lambda p: np.savez(p, golden_cases=np.array('{"version": 1, "cases": [{}]}')),
    "a list": lambda p: np.savez(p, golden_cases=np.array("[1, 2]")),
    "no text": lambda p: np.savez(p, other=np.zeros(3)),
    "empty": lambda p: p.write_bytes(b""),
    "a pickle": lambda p: np.savez(p, golden_cases=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_damaged_golden_cases_give_status_2_and_one_line(spoilt, copied, capsys):
    SPOILT[spoilt](copied.with_name(copied.name + ".golden.npz"))
    assert main([str(copied)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "the golden cases are damaged" in err


FORGED = "batch 3\nPASS: other.tflite computes all\r\x1b[2K\x1b[1A\u202egröße"


def test_a_name_in_a_file_cannot_forge_a_line_of_the_report(copied, capsys):
    known = read_golden_cases(copied)
    forged = dataclasses.replace(known.cases[0], name=FORGED)
    beside = copied.with_name(copied.name + ".golden.npz")

    def run_main(*cases, **changes):
        beside.write_bytes(pack_golden_cases(dataclasses.replace(known, cases=cases, **changes)))
        status = main([str(copied)])
        out, err = capsys.readouterr()
        text = out + err
        assert all(c.isprintable() for c in text.replace("\n", ""))
        return status, text.splitlines()

    status, lines = run_main(forged, reference=f"what m does{FORGED}")
    assert (status, len(lines)) == (0, 2)
    assert lines[1].startswith(r"  serving_default: batch 3\nPASS: other.tflite computes all\r\x1b")
    assert lines[1].endswith("größe")  # letters are not escaped
    wrong = {name: array + 1.0 for name, array in forged.expected.items()}
    status, lines = run_main(dataclasses.replace(forged, expected=wrong))
    assert (status, len(lines)) == (1, len(wrong))
    missing = {FORGED: np.ones(3)}
    changes = {"expected": missing, "atol": {FORGED: 1e-3}}
    status, lines = run_main(dataclasses.replace(forged, **changes), hashes={FORGED: ""})
    assert (status, len(lines)) == (1, 2)
    status, lines = run_main(dataclasses.replace(forged, expected={}))
    assert (status, len(lines)) == (2, 1)


def test_letters_outside_the_encoding_of_the_terminal_are_escaped(copied, monkeypatch):
    known = dataclasses.replace(read_golden_cases(copied), reference="what größe does")
    copied.with_name(copied.name + ".golden.npz").write_bytes(pack_golden_cases(known))
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([str(copied)]) == 0
    terminal.flush()
    assert rb"computes what gr\xf6\xdfe does" in terminal.buffer.getvalue()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_result_that_cannot_be_written_gives_status_2(exported):
    script = [sys.executable, "-m", "keras_norm_verify", str(exported)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(script, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last == "keras-norm: the result cannot be written: No space left on device"


def test_a_long_name_is_shortened():
    assert printable("a" * 10**6) == "a" * 100 + "..."


def test_missing_and_newer_golden_cases_and_missing_files_and_arguments_give_status_2(
    copied, capsys, monkeypatch
):
    beside = copied.with_name(copied.name + ".golden.npz")
    monkeypatch.setattr(golden_cases_file, "VERSION", 2)
    newer = pack_golden_cases(golden_cases())
    monkeypatch.undo()
    for spoil, message in [
        (lambda: beside.write_bytes(newer), "this keras-norm reads version 1. Update keras-norm"),
        (beside.unlink, "has no golden cases"),
        (copied.unlink, "no such file or folder"),
    ]:
        spoil()
        assert main([str(copied)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert message in err
    assert main([]) == 2


def test_a_copy_of_the_module_needs_neither_keras_nor_tensorflow_nor_this_package(
    exported, tmp_path
):
    """The module and the command run in a process in which these packages cannot be imported."""
    package = pathlib.Path(keras_norm_verify.__file__).parent
    shutil.copytree(package, tmp_path / "keras_norm_verify")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "for name in ('keras', 'keras_norm', 'tensorflow', 'rich', 'google.protobuf'):\n"
        "    sys.modules[name] = None\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    by_command = "import sys, keras_norm_cli; sys.exit(keras_norm_cli.main(sys.argv[1:]))"
    for command in (["-m", "keras_norm_verify"], ["-c", by_command, "verify"]):
        done = subprocess.run(
            [sys.executable, *command, str(exported)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout[:4]) == (0, "PASS"), done.stderr
