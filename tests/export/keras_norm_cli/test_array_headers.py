"""Headers of .npz and .npy files have the shapes and dtypes of the arrays."""

import numpy as np
import pytest

from keras_norm_cli.array_headers import read_headers

ARRAYS = {
    "floats": np.zeros((2, 3), "float32"),
    "big endian": np.zeros((2, 3), ">f8"),
    "Fortran order": np.zeros((2, 3), order="F"),
    "texts": np.array(["a", "bc"]),
    "no dimension": np.float32(1),
    "fields": np.zeros(2, [("u", "f4")]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_headers_are_read_without_the_values(array, tmp_path):
    np.save(tmp_path / "x.npy", array)
    np.savez_compressed(tmp_path / "x.npz", x=array, y=array)
    header = (np.shape(array), np.asarray(array).dtype)
    assert read_headers(tmp_path / "x.npy") == {"": header}
    assert read_headers(tmp_path / "x.npz") == {"x": header, "y": header}


def test_an_unknown_version_of_the_format_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[:6] + b"\x09" + content[7:])
    with pytest.raises(ValueError, match=r"version \(9, 0\) of the .npy format is unknown"):
        read_headers(tmp_path / "x.npy")
