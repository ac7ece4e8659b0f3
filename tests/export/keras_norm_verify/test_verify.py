"""Run a file on its golden cases, and find its failures."""

import contextlib
import dataclasses
import os
import re
import sys
import zipfile

import numpy as np
import pytest

from keras_norm_verify import RUNTIMES, GoldenCasesError, Runtime, read_golden_cases, verify
from keras_norm_verify.artifact import find_artifact, golden_cases_path, hash_files
from keras_norm_verify.golden_cases_file import pack_golden_cases
from keras_norm_verify.verify import find_failures
from tests.export.keras_norm_verify.cases import X, case, golden_cases, sum_features


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (sum_features, None),
        (lambda s, i: {"y": sum_features(s, i)["y"] + 9e-4}, None),
        (lambda s, i: {"y": sum_features(s, i)["y"] + 2e-3}, "larger than the tolerance 0.001"),
        (lambda s, i: {"y": sum_features(s, i)["y"] * np.nan}, "has the value nan at index"),
        (lambda s, i: {"y": sum_features(s, i)["y"][:2]}, r"the shape \(2, 5\), expected \(3, 5\)"),
        (lambda s, i: {"y": np.full((3, 5), "1")}, "has the dtype <U1, expected float32"),
        (lambda s, i: {"y": [[1.0], [1.0, 2.0]]}, "fails to run batch 3: setting an array element"),
        (lambda s, i: {}, "has no output 'y'"),
        (lambda s, i: None, "fails to run batch 3: outputs must be a dict of arrays, not NoneType"),
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


def test_a_changed_file_and_a_wrong_output_are_reported_separately(copied, tmp_path):
    golden = read_golden_cases(copied)
    content = copied.read_bytes()
    copied.write_bytes(content + b"\0" * 16)  # the runtime does not read these bytes
    (found,) = verify(copied)
    assert "was changed after its golden cases were written. It still computes" in found
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
    before = hash_files(folder)
    for name in (".DS_Store", "assets.extra/golden.npz", "notes/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    assert hash_files(folder) == before
    (folder / "variables/variables.index").write_text("other")
    assert hash_files(folder) != before


def test_a_new_format_may_be_a_folder(tmp_path, monkeypatch):
    def is_ours(path):
        return (path / "weights.npy").is_file()

    ours = Runtime("a folder of weights", is_ours, lambda path: sum_features)
    monkeypatch.setitem(RUNTIMES, "ours", ours)
    for name in ("weights.npy", "bias.npy"):
        np.save(tmp_path / name, X)
    known = dataclasses.replace(golden_cases(), hashes=hash_files(tmp_path))
    golden_cases_path(tmp_path).parent.mkdir()
    golden_cases_path(tmp_path).write_bytes(pack_golden_cases(known))
    assert verify(tmp_path) == []
    np.save(tmp_path / "weights.npy", 2 * X)
    (tmp_path / "bias.npy").unlink()
    (changed,) = verify(tmp_path)
    assert changed.endswith("Changed files: bias.npy, weights.npy")


def test_a_missing_runtime_is_named_with_its_package(copied, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(GoldenCasesError, match="not installed: pip install ai-edge-litert"):
        verify(copied)


def test_a_damaged_file_does_not_load(copied):
    copied.write_bytes(copied.read_bytes()[:200])
    changed, found = verify(copied)
    assert "was changed" in changed
    assert "does not load" in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.keras"], "model.keras is a Keras model, not an exported file. Export it"),
        (["model.h5"], "model.h5 is a Keras model, not an exported file"),
        (["m.tflite.golden.npz"], "is a file of golden cases. Give the exported file: m.tflite$"),
        ([""], "is not a SavedModel: it has neither saved_model.pb nor numbered versions"),
        (["m.xyz"], "m.xyz is not a SavedModel folder, a TFLite file or an ONNX file$"),
        (["m.npz", golden_cases()], "m.npz is not a SavedModel folder, a TFLite file or an ONNX"),
        ([None], "path must be the path of an exported file; received None"),
        ([b"m.tflite"], "path must be the path of an exported file; received b'm.tflite'"),
        (["empty", golden_cases()], "empty is not a SavedModel: it has neither saved_model.pb nor"),
        (["a*", golden_cases()], r"TensorFlow reads \* in the path of a SavedModel as a pattern"),
        (["m.tflite", 3], "golden_cases must be the path of a file; received int"),
        (["m.tflite", None, "run"], r"run must be a function \(signature, inputs\) -> outputs"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("model.keras", "model.h5", "m.tflite.golden.npz", "m.tflite", "m.xyz", "m.npz"):
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a*").mkdir()
    (tmp_path / "a*" / "saved_model.pb").touch()
    with pytest.raises(ValueError, match=message):
        verify(*arguments)


def test_the_file_of_the_golden_cases_may_be_given(copied):
    beside = copied.with_name(copied.name + ".golden.npz")
    elsewhere = beside.rename(copied.with_name("elsewhere.npz"))
    assert verify(copied, elsewhere) == []


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


def test_the_highest_version_in_a_folder_is_verified(tmp_path):
    for version in ("2", "10", "later"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").touch()
    assert find_artifact(tmp_path) == tmp_path / "10"
    with pytest.raises(GoldenCasesError, match=r"10 has no golden cases: there is no golden\.npz"):
        read_golden_cases(tmp_path)


def test_any_changed_byte_of_golden_cases_inside_a_file_raises_no_other_error(copied):
    content = pack_golden_cases(golden_cases())
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
        assert set(hash_files(copied)) == {""}
