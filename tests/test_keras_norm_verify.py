"""`keras-norm verify` and keras_norm_verify.py: run a file on its golden cases."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import keras_norm_cli
import keras_norm_verify
from keras_norm.export import export_tflite
from keras_norm_verify import (
    GoldenCase,
    GoldenCases,
    GoldenCasesError,
    find_failures,
    parse_golden_cases,
    read_golden_cases,
    verify,
)
from tests import standalone_verifier
from tests.export import models

X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("float32")


def case(**changes):
    case = GoldenCase("batch 3", "serving_default", {"x": X}, {"y": X.sum(axis=-1)}, {"y": 1e-3})
    return dataclasses.replace(case, **changes)


def golden_cases(*cases):
    return GoldenCases("m", "what m does", {"numpy": "2"}, {"": "f00"}, cases or (case(),))


def sum_features(signature, inputs):
    return {"y": inputs["x"].sum(axis=-1)}


def stored(*keys, to, **arrays):
    """Make the bytes of golden cases with one changed field, and with other arrays."""
    with np.load(io.BytesIO(golden_cases().to_bytes())) as file:
        arrays = dict(file) | arrays
    fields = json.loads(str(arrays["golden_cases"]))
    parent = fields
    for key in keys[:-1]:
        parent = parent[key]
    parent[keys[-1]] = to
    arrays["golden_cases"] = np.array(json.dumps(fields))
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Export a TFLite file with a step signature, with its golden cases beside it."""
    return export_tflite(models.recurrent(), tmp_path_factory.mktemp("m") / "model.tflite")


@pytest.fixture
def copied(exported, tmp_path):
    """Copy the exported file and its golden cases, so that a test can change them."""
    for file in exported.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path / exported.name


def test_the_committed_module_is_up_to_date():
    committed = standalone_verifier.PATH.read_text()
    assert committed == standalone_verifier.source(), "run `make stubs`"


def test_golden_cases_are_equal_after_writing_and_reading():
    inputs = {"x": X, "h": np.zeros((3, 2), "float32")}
    stream = case(inputs=inputs, sequences=("x",), states=("h",), sequence_outputs=("y",))
    read = parse_golden_cases(golden_cases(case(), stream).to_bytes())
    assert dataclasses.replace(read, cases=()) == dataclasses.replace(golden_cases(), cases=())
    for actual, expected in zip(read.cases, (case(), stream), strict=True):
        np.testing.assert_array_equal(actual.inputs["x"], X)
        np.testing.assert_array_equal(actual.expected["y"], expected.expected["y"])
        no_arrays = [dataclasses.replace(c, inputs={}, expected={}) for c in (actual, expected)]
        assert no_arrays[0] == no_arrays[1]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (sum_features, None),
        (lambda s, i: {"y": sum_features(s, i)["y"] + 9e-4}, None),
        (lambda s, i: {"y": sum_features(s, i)["y"] + 2e-3}, "larger than the tolerance 0.001"),
        (lambda s, i: {"y": sum_features(s, i)["y"] * np.nan}, "is nan, expected"),
        (
            lambda s, i: {"y": sum_features(s, i)["y"][:2]},
            r"has the shape \(2, 5\), expected \(3, 5\)",
        ),
        (lambda s, i: {"y": np.full((3, 5), "1")}, "has the dtype <U1, expected float32"),
        (lambda s, i: {"y": [[1.0], [1.0, 2.0]]}, "fails to run batch 3: setting an array element"),
        (lambda s, i: {}, "has no output 'y'"),
        (lambda s, i: 1 / 0, "fails to run batch 3: division by zero"),
        (lambda s, i: i["z"], "fails to run batch 3: there is no 'z'"),
    ],
)
def test_each_failure_is_described(run, message):
    found = list(find_failures(golden_cases(), run))
    if message is None:
        assert found == []
    else:
        assert len(found) == 1
        assert re.search(message, found[0])


def test_nan_and_infinity_equal_themselves():
    expected = np.array([np.nan, np.inf, 1.0])
    known = golden_cases(case(expected={"y": expected}))
    assert not list(find_failures(known, lambda s, i: {"y": expected.copy()}))
    assert list(find_failures(known, lambda s, i: {"y": np.array([0.0, np.inf, 1.0])}))
    assert list(find_failures(known, lambda s, i: {"y": np.array([np.nan, -np.inf, 1.0])}))


def test_integers_must_be_equal():
    known = golden_cases(case(expected={"y": np.arange(4)}, atol={"y": 5.0}))
    (found,) = find_failures(known, lambda s, i: {"y": np.array([0, 1, 3, 3])})
    assert "differs in 1 of 4 values" in found


@pytest.mark.parametrize(
    ("integer", "number"), [(np.int64(2**53 + 1), 2.0**53), (np.uint64(2**64 - 1), 2.0**64)]
)
def test_large_integers_are_compared_without_rounding(integer, number):
    known = golden_cases(case(expected={"y": np.array([integer])}))
    assert not list(find_failures(known, lambda s, i: {"y": np.array([integer])}))
    (found,) = find_failures(known, lambda s, i: {"y": np.array([number])})
    assert "differs in 1 of 1 values" in found


def test_a_missing_state_is_named():
    known = golden_cases(case(inputs={"x": X, "h": X[:, 0]}, sequences=("x",), states=("h",)))
    (found,) = find_failures(known, sum_features)
    assert "fails to run batch 3: the outputs lack the state h" in found


def test_a_stream_gets_the_states_of_the_previous_timestep():
    def step(signature, inputs):
        s = inputs["s"] + inputs["x"] * inputs["scale"]
        return {"s": s, "all": s, "last": s.sum(axis=-1)}

    scale = np.float32([[2.0], [1.0], [0.5]])
    sums = np.cumsum(X * scale[:, None], axis=1)
    known = case(
        inputs={"x": X, "s": np.zeros((3, 2), "float32"), "scale": scale},
        expected={"all": sums, "last": sums[:, -1].sum(axis=-1)},
        atol={"all": 1e-5, "last": 1e-5},
        sequences=("x",),
        states=("s",),
        sequence_outputs=("all",),
    )
    assert not list(find_failures(golden_cases(known), step))


def test_an_exported_file_passes_for_sequences_and_for_its_step_signature(exported, capsys):
    assert keras_norm_verify.main([str(exported)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS")
    assert "serving_default: batch 1, length 4" in out
    assert "step: batch 3, length 7, timestep by timestep" in out


def test_a_changed_file_and_a_wrong_output_are_reported_separately(copied, tmp_path):
    golden = read_golden_cases(copied)
    content = copied.read_bytes()
    copied.write_bytes(content + b"\0" * 16)  # the runtime does not read these bytes
    (found,) = verify(copied)
    assert "was changed after its golden cases were written, and still computes" in found
    copied.write_bytes(content)
    small = {name: atol * 1e-6 for name, atol in golden.cases[0].atol.items()}
    shifted = {n: a + 1.0 for n, a in golden.cases[0].expected.items()}
    wrong = dataclasses.replace(golden.cases[0], expected=shifted, atol=small)
    found = verify(copied, dataclasses.replace(golden, cases=(wrong,)))
    assert found
    assert not any("changed" in line for line in found)


def test_files_of_other_programs_in_a_saved_model_are_not_hashed(tmp_path):
    folder = tmp_path / "model"
    for name in ("saved_model.pb", "variables/variables.index", "assets/words.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    before = keras_norm_verify.hash_files(folder)
    for name in (".DS_Store", "assets.extra/golden.npz", "notes/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    assert keras_norm_verify.hash_files(folder) == before
    (folder / "variables/variables.index").write_text("other")
    assert keras_norm_verify.hash_files(folder) != before


def test_the_file_of_another_model_was_changed_and_gives_other_outputs(copied):
    export_tflite(models.recurrent(), copied, step=False, golden_cases="inside", overwrite=True)
    other = read_golden_cases(copied)
    export_tflite(models.recurrent(), copied, step=False, golden_cases=False, overwrite=True)
    first, *rest = verify(copied, other)
    assert "no longer computes the expected outputs" in first
    assert rest


def test_a_damaged_file_does_not_load(copied):
    copied.write_bytes(copied.read_bytes()[:200])
    changed, found = verify(copied)
    assert "was changed" in changed
    assert "does not load" in found


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: p.write_bytes(b"no archive"),
        lambda p: p.write_bytes(p.read_bytes()[:-40]),
        lambda p: np.savez(p, golden_cases=np.array("[1, 2")),
        lambda p: np.savez(p, golden_cases=np.array('{"version": 1, "cases": [{"x": 1}]}')),
        lambda p: np.savez(p, other=np.zeros(3)),
        lambda p: p.write_bytes(b""),
        lambda p: np.savez(p, golden_cases=np.array([{}], dtype=object)),
    ],
    ids=["no archive", "cut off", "no JSON", "other fields", "no text", "empty", "a pickle"],
)
def test_damaged_golden_cases_give_status_2_and_one_line(spoil, copied, capsys):
    spoil(copied.with_name(copied.name + ".golden.npz"))
    assert keras_norm_verify.main([str(copied)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "the golden cases are damaged" in err


@pytest.mark.parametrize("tolerance", ["much", [1e-3], None, True, -1e-3, np.nan, np.inf, 10**400])
def test_a_tolerance_that_is_not_a_finite_number_is_refused(tolerance):
    with pytest.raises(GoldenCasesError, match="the golden cases are damaged: "):
        parse_golden_cases(stored("cases", 0, "atol", "y", to=tolerance))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["version"], "1", "version is not an integer"),
        (["version"], -1, "version is not an integer"),
        (["model"], ["m"], "'model' is not text"),
        (["reference"], None, "'reference' is not text"),
        (["versions"], 5, "versions is not a dict"),
        (["hashes"], [], "hashes is not a dict"),
        (["hashes", ""], 5, "'' is not text"),
        (["unknown"], 5, "the fields of the JSON text are not cases, hashes"),
        (["cases"], {}, "cases is not a list"),
        (["cases", 0], "batch 3", "the fields of case 0 are not atol, expected"),
        (["cases", 0, "unknown"], 5, "the fields of case 0 are not atol, expected"),
        (["cases", 0, "name"], 5, "'name' is not text"),
        (["cases", 0, "signature"], None, "'signature' is not text"),
        (["cases", 0, "inputs"], "x", "inputs is not a list of names"),
        (["cases", 0, "inputs"], [["x"]], "inputs is not a list of names"),
        (["cases", 0, "inputs"], ["x", "x"], "inputs is not a list of names"),
        (["cases", 0, "inputs"], ["z"], "'z' has no array of numbers"),
        (["cases", 0, "expected"], {}, "expected is not a list of names"),
        (["cases", 0, "sequences"], "x", "sequences is not a list of names"),
        (["cases", 0, "sequences"], ["z"], "'z' is not an input"),
        (["cases", 0, "states"], ["z"], "'z' is not an input"),
        (["cases", 0, "states"], ["x"], "case 0 has states, but no input with timesteps"),
        (["cases", 0, "sequence_outputs"], 5, "sequence_outputs is not a list of names"),
        (["cases", 0, "sequence_outputs"], ["z"], "'z' is not an output"),
        (["cases", 0, "atol"], [1e-3], "atol is not a dict"),
        (["cases", 0, "atol"], {}, "the tolerance of output 'y' is None"),
    ],
)
def test_a_field_of_a_wrong_type_is_refused(keys, value, message):
    with pytest.raises(GoldenCasesError, match=f"the golden cases are damaged: .*{message}"):
        parse_golden_cases(stored(*keys, to=value))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.full((3, 5), "a"), "'x' has no array of numbers"),
        (np.zeros(3), "no timesteps"),
        (np.zeros((3, 0)), "no timesteps"),
    ],
)
def test_sequences_without_numbers_or_timesteps_are_refused(x, message):
    content = stored("cases", 0, "sequences", to=["x"], **{"0/inputs/x": x})
    with pytest.raises(GoldenCasesError, match=message):
        parse_golden_cases(content)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ((), ": the list of cases is empty"),
        ((case(), case(name="batch 7", expected={})), "batch 7: the case has no expected outputs"),
        ((case(expected={"y": np.zeros((0, 5))}),), "batch 3: output 'y' is empty"),
        (
            (case(), case(name="batch 7", expected={"y": np.full(5, np.nan)})),
            "batch 7: every expected value of output 'y' is NaN",
        ),
        ((case(atol={"y": 1e9}),), r"the tolerance of output 'y' is 1e\+09"),
        (
            (case(), case(name="batch 7", atol={"y": 5.0})),
            "batch 7: the tolerance of output 'y' is 5",
        ),
        ((case(expected={"y": np.zeros(5)}, atol={"y": 1.0}),), "its largest expected value is 0"),
    ],
)
def test_golden_cases_that_every_file_would_pass_are_refused(cases, message, copied):
    known = dataclasses.replace(golden_cases(), cases=cases)
    for read in (lambda: parse_golden_cases(known.to_bytes()), lambda: verify(copied, known)):
        with pytest.raises(GoldenCasesError, match=f"the golden cases compare nothing.*{message}"):
            read()


def test_the_tolerances_of_the_exporters_are_accepted():
    """The tolerance of an 8-bit file is 0.05 of the largest output, and 0.1 for an output of zeros.

    An output that is tiny in one case has a tolerance relative to its largest value in all cases.
    """
    y = X.sum(axis=-1)
    for known in (
        golden_cases(case(atol={"y": 5e-2 * float(np.abs(y).max())})),
        golden_cases(case(expected={"y": np.zeros(5)}, atol={"y": 0.1})),
        golden_cases(case(), case(expected={"y": 1e-6 * y})),
        golden_cases(case(expected={"y": np.arange(5)}, atol={"y": 9.0})),
    ):
        parse_golden_cases(known.to_bytes())


FORGED = "batch 3\nPASS: other.tflite computes all\r\x1b[2K\x1b[1A\u202egröße"


def test_a_name_in_a_file_cannot_forge_a_line_of_the_report(copied, capsys):
    known = read_golden_cases(copied)
    forged = dataclasses.replace(known.cases[0], name=FORGED)
    beside = copied.with_name(copied.name + ".golden.npz")

    def run_main(*cases, **changes):
        beside.write_bytes(dataclasses.replace(known, cases=cases, **changes).to_bytes())
        status = keras_norm_verify.main([str(copied)])
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
    copied.with_name(copied.name + ".golden.npz").write_bytes(known.to_bytes())
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert keras_norm_verify.main([str(copied)]) == 0
    terminal.flush()
    assert rb"computes what gr\xf6\xdfe does" in terminal.buffer.getvalue()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_result_that_cannot_be_written_gives_status_2(exported):
    script = [sys.executable, keras_norm_verify.__file__, str(exported)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(script, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last == "keras-norm: the result cannot be written: No space left on device"


def test_a_long_name_is_shortened():
    assert keras_norm_verify.printable("a" * 10**6) == "a" * 100 + "..."


def test_a_small_file_that_unpacks_to_many_bytes_is_refused(monkeypatch):
    monkeypatch.setattr(keras_norm_verify, "MOST_BYTES", 2**20)
    zeros = np.zeros(2**23)  # 64 MB
    true_size = io.BytesIO()
    np.savez_compressed(true_size, golden_cases=np.array("{}"), zeros=zeros)
    false_size = true_size.getvalue().replace(
        (zeros.nbytes + 128).to_bytes(4, "little"), (1000).to_bytes(4, "little")
    )
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("golden_cases.npy", bytes(2**26))
    block = outer.getvalue().replace((2**26).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    tracemalloc.start()
    for content, message in [
        (true_size.getvalue(), r"take 67,\d+,\d+ bytes, more than the limit of 1,048,576"),
        (false_size, "damaged: Bad CRC"),
        (block, "NumPy does not write their compression"),
    ]:
        assert len(content) < 10**5
        tracemalloc.reset_peak()
        with pytest.raises(GoldenCasesError, match=message):
            parse_golden_cases(content)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


def test_golden_cases_with_a_duplicate_array_are_refused():
    content = io.BytesIO(golden_cases().to_bytes())
    array = io.BytesIO()
    np.save(array, np.zeros((3, 5)))
    with zipfile.ZipFile(content, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("0/expected/y.npy", array.getvalue())
    with pytest.raises(GoldenCasesError, match="damaged: the array '0/expected/y' occurs twice"):
        parse_golden_cases(content.getvalue())


def test_golden_cases_with_a_repeated_key_are_refused():
    with np.load(io.BytesIO(golden_cases().to_bytes())) as file:
        arrays = dict(file)
    text = str(arrays["golden_cases"]).replace(
        '"atol": {"y": 0.001}', '"atol": {"y": 0.001, "y": 9.0}'
    )
    content = io.BytesIO()
    np.savez(content, **arrays | {"golden_cases": np.array(text)})
    with pytest.raises(GoldenCasesError, match="damaged: the text has the key 'y' twice"):
        parse_golden_cases(content.getvalue())


@pytest.mark.parametrize("text", ["[1, 2]", "null", '"text"'])
def test_golden_cases_with_a_json_text_that_is_not_a_dict_are_refused(text):
    content = io.BytesIO()
    np.savez(content, golden_cases=np.array(text))
    with pytest.raises(GoldenCasesError, match="damaged: the JSON text is not a dict"):
        parse_golden_cases(content.getvalue())


def test_an_npz_file_of_data_is_refused():
    content = io.BytesIO()
    np.savez(content, x=X)
    with pytest.raises(GoldenCasesError, match="damaged: the file has no JSON text"):
        parse_golden_cases(content.getvalue())


def test_golden_cases_that_are_too_large_are_neither_written_nor_read(monkeypatch, copied):
    beside = copied.with_name(copied.name + ".golden.npz")
    monkeypatch.setattr(keras_norm_verify, "MOST_BYTES", 200)
    with pytest.raises(GoldenCasesError, match="with shorter samples, or with golden_cases=False"):
        golden_cases().to_bytes()
    with pytest.raises(GoldenCasesError, match="more than the limit"):
        read_golden_cases(copied)
    with zipfile.ZipFile(copied, "a") as archive:
        archive.writestr("golden.npz", beside.read_bytes())
    beside.unlink()
    with pytest.raises(GoldenCasesError, match="more than the limit"):
        read_golden_cases(copied)


def test_missing_and_newer_golden_cases_and_missing_files_and_arguments_give_status_2(
    copied, capsys, monkeypatch
):
    beside = copied.with_name(copied.name + ".golden.npz")
    monkeypatch.setattr(keras_norm_verify, "VERSION", 2)
    newer = golden_cases().to_bytes()
    monkeypatch.undo()
    for spoil, message in [
        (lambda: beside.write_bytes(newer), "this keras-norm reads version 1. Update keras-norm"),
        (beside.unlink, "has no golden cases"),
        (copied.unlink, "no such file or folder"),
    ]:
        spoil()
        assert keras_norm_verify.main([str(copied)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert message in err
    assert keras_norm_verify.main([]) == 2


def test_the_file_of_the_golden_cases_may_be_given(copied):
    beside = copied.with_name(copied.name + ".golden.npz")
    elsewhere = beside.rename(copied.with_name("elsewhere.npz"))
    assert keras_norm_verify.verify(copied, elsewhere) == []


def test_a_given_file_of_golden_cases_must_exist(exported, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for beside, message in [
        (exported.with_name("typo.npz"), r"typo\.npz: no such file"),
        (tmp_path / "loop", "loop: no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "pipe is not a file"),
        (tmp_path / ("x" * 300), "x cannot be read: File name too long"),
    ]:
        with pytest.raises(GoldenCasesError, match=message):
            read_golden_cases(exported, beside)


def test_a_path_that_is_too_long_gives_status_2(capsys):
    assert keras_norm_verify.main(["x" * 300]) == 2
    assert (
        capsys.readouterr().err == f"keras-norm: {'x' * 300} cannot be read: File name too long\n"
    )


def test_the_highest_version_in_a_folder_is_verified(tmp_path):
    for version in ("2", "10", "later"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").touch()
    assert keras_norm_verify.resolve_version(tmp_path) == tmp_path / "10"
    with pytest.raises(GoldenCasesError, match=r"10 has no golden cases: there is no golden\.npz"):
        read_golden_cases(tmp_path)


def test_any_changed_byte_of_golden_cases_inside_a_file_raises_no_other_error(copied):
    content = golden_cases().to_bytes()
    without = copied.read_bytes()
    copied.with_name(copied.name + ".golden.npz").unlink()
    with zipfile.ZipFile(copied, "a") as archive:
        archive.writestr("golden.npz", content)
    whole, rng = copied.read_bytes(), np.random.default_rng(0)
    for index in rng.integers(len(without), len(whole), 200):
        broken = bytearray(whole)
        broken[index] ^= int(rng.integers(1, 256))
        copied.write_bytes(bytes(broken))
        with contextlib.suppress(GoldenCasesError):
            read_golden_cases(copied)
        assert set(keras_norm_verify.hash_files(copied)) == {""}


def test_the_command_reports_the_results_of_the_module(exported, capfd):
    assert keras_norm_cli.main(["verify", str(exported)]) == 0
    assert capfd.readouterr().out.startswith("PASS")
    assert keras_norm_cli.main(["verify", str(exported), "--golden-cases", "nowhere.npz"]) == 2
    assert capfd.readouterr().err.startswith("keras-norm: ")


def test_a_copy_of_the_module_needs_neither_keras_nor_tensorflow_nor_this_package(
    exported, tmp_path
):
    """The module and the command run in a process in which these packages cannot be imported."""
    (tmp_path / "verify_here.py").write_bytes(pathlib.Path(keras_norm_verify.__file__).read_bytes())
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "for name in ('keras', 'keras_norm', 'tensorflow', 'rich', 'google.protobuf'):\n"
        "    sys.modules[name] = None\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    by_command = "import sys, keras_norm_cli; sys.exit(keras_norm_cli.main(sys.argv[1:]))"
    for command in (["verify_here.py"], ["-c", by_command, "verify"]):
        done = subprocess.run(
            [sys.executable, *command, str(exported)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout[:4]) == (0, "PASS"), done.stderr
