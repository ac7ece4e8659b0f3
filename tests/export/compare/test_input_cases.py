import numpy as np
import pytest

from keras_norm.export.compare.input_cases import (
    edge_cases,
    make_cases,
    masked_cases,
    names_edge_case,
)
from keras_norm.export.compare.samples import read_samples
from keras_norm.export.input_names import TensorSpec
from tests.export.compare.test_samples import samples, spec


def test_every_batch_size_is_combined_with_every_length():
    names = {case.name for case in make_cases(samples(), (1, 3), (2, 4))}
    assert names == {f"batch {b}, length {t}" for b in (1, 3) for t in (2, 4)}


def test_default_lengths_are_1_and_half_equal_and_1_5_times_the_data():
    assert {case.length for case in make_cases(samples(), None, None)} == {1, 2, 4, 6}


@pytest.mark.parametrize(("count", "sizes"), [(2, {1, 2, 7}), (31, {1, 2, 7}), (32, {1, 2, 7, 32})])
def test_a_large_batch_needs_as_many_samples(count, sizes):
    assert {len(case.rows) for case in make_cases(samples(count), None, None)} == sizes


def test_samples_repeat_in_a_batch_larger_than_the_data():
    (case,) = make_cases(samples(3), (7,), (4,))
    assert case.rows == (0, 1, 2, 0, 1, 2, 0)
    np.testing.assert_array_equal(case.inputs["x"][3:6], samples(3).arrays["x"])


def test_a_longer_case_repeats_the_sequence():
    inputs = samples().take([0], length=6)["x"]
    np.testing.assert_array_equal(inputs[:, 4:], inputs[:, :2])


def unequal():
    """Two inputs of 6 and of 4 timesteps."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(10, 6, 3)), "z": rng.normal(size=(10, 4, 3))}
    return read_samples({**spec(), **spec(name="z")}, data)


def test_inputs_of_different_lengths_are_cut_and_lengthened_in_proportion():
    cases = make_cases(unequal(), None, None)
    lengths = {(case.length, *(a.shape[1] for a in case.inputs.values())) for case in cases}
    assert lengths == {(1, 1, 1), (3, 3, 2), (None, 6, 4), (9, 9, 6)}


def test_the_length_applies_to_the_longest_input():
    cases = make_cases(unequal(), (10,), (3, 6))
    assert [(c.length, *(a.shape[1] for a in c.inputs.values())) for c in cases] == [
        (3, 3, 2),
        (None, 6, 4),  # the data as they are
    ]


def test_a_static_batch_or_length_runs_at_its_own_size_only():
    cases = make_cases(samples(shape=(3, None, 3)), None, None)
    assert {len(case.rows) for case in cases} == {3}
    assert {case.length for case in make_cases(samples(shape=(None, 4, 3)), None, None)} == {None}


@pytest.mark.parametrize(
    ("sizes", "lengths", "message"),
    [
        ((0,), None, "batch_sizes must be a list of positive whole numbers"),
        ((), None, "batch_sizes must be a list of positive whole numbers"),
        ((True,), None, "batch_sizes must be a list of positive whole numbers"),
        (None, (0,), "lengths must be a list of positive whole numbers"),
        ((2, 10**12), None, "batch_sizes takes numbers up to 1048576. Received: 1000000000000"),
        (None, (10**12,), "lengths takes numbers up to 16777216. Received: 1000000000000"),
        ((2.5,), None, "batch_sizes must be a list of positive whole numbers"),
    ],
)
def test_wrong_sizes_and_lengths_raise(sizes, lengths, message):
    with pytest.raises(ValueError, match=message):
        make_cases(samples(), sizes, lengths)


def test_other_sizes_than_the_static_size_raise():
    with pytest.raises(ValueError, match="batches of 3 only"):
        make_cases(samples(shape=(3, None, 3)), (2,), None)
    with pytest.raises(ValueError, match="dynamic time dimension"):
        make_cases(samples(shape=(None, 4, 3)), None, (2,))


def masked_steps(name, length=6):
    """The masked timesteps of the test inputs with this mask, (batch, time)."""
    cases = masked_cases(samples(length=length), {"x": -9.0})
    (case,) = (case for case in cases if case.name.endswith(name))
    return (case.inputs["x"] == -9.0).all(axis=-1)


def test_padding_grows_from_row_to_row_and_leaves_one_unmasked_timestep():
    assert masked_steps("padded right").sum(axis=1).tolist() == [0, 1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize(
    ("mask", "row", "steps"),
    [
        ("padded right", 4, [0, 0, 0, 1, 1, 1]),
        ("padded left", 4, [1, 1, 1, 0, 0, 0]),
        ("with gaps", 0, [0, 1, 0, 0, 1, 0]),
        ("row 0 masked", 0, [1] * 6),
        ("row 0 masked", 1, [0] * 6),
    ],
)
def test_each_mask_has_its_timesteps(mask, row, steps):
    assert masked_steps(mask)[row].tolist() == steps


def test_unmasked_timesteps_are_those_of_the_data():
    for case in masked_cases(samples(), {"x": -9.0}):
        given = samples().arrays["x"][:7]
        kept = case.inputs["x"] != -9.0
        np.testing.assert_array_equal(case.inputs["x"][kept], given[kept])


def edges_of(shape, dtype, data):
    samples = read_samples({"x": TensorSpec("x", shape, dtype)}, data)
    plain = samples.case(range(samples.batch or 2)).inputs["x"]
    found = {}
    for case in edge_cases(samples):
        assert names_edge_case(case.name)
        np.testing.assert_array_equal(case.inputs["x"][1:], plain[1:])
        found[case.name.partition("row 0 ")[2]] = case.inputs["x"][0]
    return found


def test_edge_rows_are_zeros_one_value_and_extremes_of_the_data():
    x = np.random.default_rng(0).normal(size=(9, 4, 3)).astype("float32")
    found = edges_of((None, None, 3), "float32", x)
    assert list(found) == ["zeros", "constant", "smallest values", "largest values"]
    np.testing.assert_array_equal(found["zeros"], 0.0)
    np.testing.assert_allclose(found["constant"], x.mean(), rtol=1e-6)
    np.testing.assert_array_equal(found["smallest values"], x.min(axis=0))
    np.testing.assert_array_equal(found["largest values"], x.max(axis=0))


def test_integer_edge_rows_come_from_the_data():
    ids = np.random.default_rng(0).integers(3, 9, (9, 5)) * 10
    for row in edges_of((None, None), "int32", ids).values():
        assert set(row) <= set(ids.flat)
    assert "zeros" in edges_of((None, None), "int32", np.minimum(ids - 30, 30))


def test_an_edge_case_that_the_data_contain_is_left_out():
    assert list(edges_of((None, 2), "float32", np.ones((4, 2)))) == ["zeros"]


def test_edge_rows_fit_a_static_batch():
    x = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    assert len(edges_of((3, 2), "float32", x)) == 4
    assert len(edges_of((1, 2), "float32", x)) == 4


def test_texts_have_edge_cases_of_their_own():
    specs = {"x": TensorSpec("x", (None,), "string"), "z": TensorSpec("z", (None, 2), "float32")}
    samples = read_samples(specs, {"x": ["a", "b"], "z": np.arange(4.0).reshape(2, 2)})
    found = {case.name.partition("row 0 ")[2]: case.inputs for case in edge_cases(samples)}
    assert found["zeros"]["x"].tolist() == [b"a", b"b"]
    assert found["without text"]["x"].tolist() == [b"", b"b"]
    np.testing.assert_array_equal(found["without text"]["z"], samples.arrays["z"])
    assert "with unknown words" in found
    *_, alone = edge_cases(samples)
    assert (alone.name, alone.inputs["x"].tolist()) == ("batch 1, without text", [b""])
