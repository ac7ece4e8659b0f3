"""Missing or damaged data raise an error that says how to get them."""

import gzip

import pytest

from experiments.harness import data


def test_the_listed_sizes_equal_the_sizes_of_the_files(request):
    folder = request.getfixturevalue("data")
    there = {name: size for name, size in data.SIZES.items() if (folder / name).exists()}
    assert {name: data.size_of(folder / name) for name in there} == there


@pytest.mark.parametrize("cut", [0, 2, 9])
def test_a_truncated_or_other_compressed_text_is_refused(cut, tmp_path):
    path = tmp_path / "translation_cmn_eng" / "cmn.txt.gz"
    path.parent.mkdir()
    written = gzip.compress(b"Hi.\t\n" * 99)
    path.write_bytes(written[: len(written) - cut])
    expected = r"cmn.txt.gz is truncated .* \(.* bytes, not 4,151,351\): download it again"
    with pytest.raises(data.DataMissingError, match=expected):
        data.file("translation_cmn_eng", "cmn.txt.gz", tmp_path)
