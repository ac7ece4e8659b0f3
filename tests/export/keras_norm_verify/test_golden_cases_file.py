"""Files of golden cases: written, read, damaged, malicious, too large."""

import dataclasses
import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from keras_norm_verify import GoldenCasesError, golden_cases_file, read_golden_cases, verify
from keras_norm_verify.golden_cases import require_comparisons
from keras_norm_verify.golden_cases_file import pack_golden_cases, parse_golden_cases
from tests.export.keras_norm_verify.cases import X, case, golden_cases, stored


def test_golden_cases_are_equal_after_writing_and_reading():
    inputs = {"x": X, "h": np.zeros((3, 2), "float32")}
    stream = case(inputs=inputs, sequences=("x",), states=("h",), sequence_outputs=("y",))
    read = parse_golden_cases(pack_golden_cases(golden_cases(case(), stream)))
    assert dataclasses.replace(read, cases=()) == dataclasses.replace(golden_cases(), cases=())
    for actual, expected in zip(read.cases, (case(), stream), strict=True):
        np.testing.assert_array_equal(actual.inputs["x"], X)
        np.testing.assert_array_equal(actual.expected["y"], expected.expected["y"])
        no_arrays = [dataclasses.replace(c, inputs={}, expected={}) for c in (actual, expected)]
        assert no_arrays[0] == no_arrays[1]


@pytest.mark.parametrize("tolerance", ["much", [1e-3], None, True, -1e-3, np.nan, np.inf, 10**400])
def test_a_tolerance_that_is_not_a_finite_number_is_refused(tolerance):
    with pytest.raises(GoldenCasesError, match="the golden cases are damaged: "):
        parse_golden_cases(stored("cases", 0, "atol", "y", to=tolerance))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["version"], "1", "the format version of the golden cases is unknown"),
        (["version"], -1, "the format version of the golden cases is unknown"),
        (["model"], ["m"], "the field model of the JSON text is a tuple"),
        (["reference"], None, "the field reference of the JSON text is a NoneType"),
        (["versions"], 5, "the field versions of the JSON text is a int"),
        (["hashes"], [], "the field hashes of the JSON text is a tuple"),
        (["hashes", ""], 5, "the field hashes of the JSON text is a dict: this type is wrong"),
        (["unknown"], 5, "the JSON text must have the fields model, ref"),
        (["cases"], {"a": 1}, "string indices must be integers"),
        (["cases", 0], "batch 3", "string indices must be integers"),
        (["cases", 0, "unknown"], 5, "case 0 must have the fields name, signature"),
        (["cases", 0, "name"], 5, "the field name of case 0 is a int"),
        (["cases", 0, "signature"], None, "the field signature of case 0 is a NoneType"),
        (["cases", 0, "inputs"], [["x"]], "there is no "),
        (["cases", 0, "inputs"], ["z"], "there is no '0/inputs/z'"),
        (["cases", 0, "expected"], 5, "'int' object is not iterable"),
        (["cases", 0, "sequences"], "x", "the field sequences of case 0 is a str"),
        (
            ["cases", 0, "sequences"],
            [5],
            "the field sequences of case 0 is a tuple: this type is wrong",
        ),
        (["cases", 0, "sequences"], ["z"], "case 0 has no array with the name 'z'"),
        (["cases", 0, "states"], ["z"], "case 0 has no array with the name 'z'"),
        (["cases", 0, "sequence_outputs"], ["z"], "case 0 has no array with the name 'z'"),
        (["cases", 0, "atol"], [1e-3], "the field atol of case 0 is a tuple"),
        (["cases", 0, "atol"], {}, "the tolerance of output 'y' is nan"),
    ],
)
def test_a_field_of_a_wrong_type_is_refused(keys, value, message):
    with pytest.raises(GoldenCasesError, match=f"the golden cases are damaged: .*{message}"):
        parse_golden_cases(stored(*keys, to=value))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.full((3, 5), "a"), "'x' is not an array of numbers or bytes"),
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
        ((case(atol={"y": 1e9}),), r"the tolerance of output 'y', 1e\+09"),
        ((case(), case(name="batch 7", atol={"y": 5.0})), "batch 7: .* tolerance of output 'y', 5"),
        ((case(expected={"y": np.zeros(5)}, atol={"y": 1.0}),), "the largest expected value is 0"),
    ],
)
def test_golden_cases_that_every_file_would_pass_are_refused(cases, message, copied):
    known = dataclasses.replace(golden_cases(), cases=cases)
    with pytest.raises(GoldenCasesError, match=f"the golden cases compare nothing.*{message}"):
        verify(copied, known)


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
        require_comparisons(parse_golden_cases(pack_golden_cases(known)).cases)


def test_a_small_file_that_unpacks_to_many_bytes_is_refused(monkeypatch):
    monkeypatch.setattr(golden_cases_file, "MAX_BYTES", 2**20)
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
        (block, "the archive is compressed with a method that NumPy does not write"),
    ]:
        assert len(content) < 10**5
        tracemalloc.reset_peak()
        with pytest.raises(GoldenCasesError, match=message):
            parse_golden_cases(content)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


def test_a_name_that_occurs_twice_is_refused():
    content = io.BytesIO(pack_golden_cases(golden_cases()))
    array = io.BytesIO()
    np.save(array, np.zeros((3, 5)))
    with zipfile.ZipFile(content, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("0/expected/y.npy", array.getvalue())
    with pytest.raises(GoldenCasesError, match="damaged: the name '0/expected/y' occurs twice"):
        parse_golden_cases(content.getvalue())
    with np.load(io.BytesIO(pack_golden_cases(golden_cases()))) as file:
        text = str(file["golden_cases"])
    with pytest.raises(GoldenCasesError, match="damaged: the name 'y' occurs twice"):
        parse_golden_cases(npz(golden_cases=text.replace('"y": 0.001', '"y": 0.001, "y": 9.0')))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        *(({"golden_cases": text}, "JSON text is not a dict") for text in ("[1]", "null", '"a"')),
        ({"x": X}, "file has no JSON text"),
    ],
)
def test_a_file_without_a_dict_in_json_is_refused(arrays, message):
    with pytest.raises(GoldenCasesError, match=f"damaged: the {message}"):
        parse_golden_cases(npz(**arrays))


def npz(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def test_golden_cases_that_are_too_large_are_neither_written_nor_read(monkeypatch, copied):
    beside = copied.with_name(copied.name + ".golden.npz")
    monkeypatch.setattr(golden_cases_file, "MAX_BYTES", 200)
    with pytest.raises(GoldenCasesError, match="with shorter samples, or with golden_cases=False"):
        pack_golden_cases(golden_cases())
    with pytest.raises(GoldenCasesError, match="more than the limit"):
        read_golden_cases(copied)
    with zipfile.ZipFile(copied, "a") as archive:
        archive.writestr("golden.npz", beside.read_bytes())
    beside.unlink()
    with pytest.raises(GoldenCasesError, match="more than the limit"):
        read_golden_cases(copied)
