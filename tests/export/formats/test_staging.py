import errno
import pathlib

import pytest

from keras_norm.export import export_onnx, export_saved_model, export_tflite
from keras_norm.export.formats import staging
from keras_norm.export.formats.staging import replace_text, staged
from tests.export import models


def test_the_target_appears_after_the_block(tmp_path):
    target = tmp_path / "made" / "here" / "file"
    with staged(target) as path:
        path.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert [p.name for p in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("overwrite", ["no", 1, None])
def test_overwrite_must_be_a_bool(tmp_path, overwrite):
    def build():
        with staged(tmp_path / "file", overwrite):
            pytest.fail("it was built")

    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="overwrite must be True or False; received"):
        build()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_no_files(tmp_path, error):
    def build():
        with staged(tmp_path / "made" / "here" / "folder") as path:
            path.mkdir()
            (path / "half").touch()
            raise error

    with pytest.raises(error):
        build()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_at_the_path_of_the_second_file_is_refused_before_the_block(tmp_path):
    (tmp_path / "file.golden").mkdir()

    def build():
        with staged(tmp_path / "file", overwrite=True, beside="file.golden"):
            raise AssertionError("was built")

    with pytest.raises(FileExistsError, match="is a folder, but the exporter writes a file"):
        build()


@pytest.mark.parametrize("when", ["before the block", "in the block"])
def test_a_second_file_is_replaced_with_overwrite_only(tmp_path, when):
    target, other = tmp_path / "file", tmp_path / "file.golden"

    def build(overwrite):
        with staged(target, overwrite, beside=other.name) as path:
            path.write_text("ours")
            path.with_name(other.name).write_text("ours")
            if when == "in the block":
                other.write_text("theirs")

    if when == "before the block":
        other.write_text("theirs")
    with pytest.raises(FileExistsError, match=r"golden exists, .* or overwrite=True"):
        build(overwrite=False)
    assert (other.read_text(), [*tmp_path.iterdir()]) == ("theirs", [other])
    build(overwrite=True)
    assert (target.read_text(), other.read_text()) == ("ours", "ours")


def test_a_failure_keeps_folders_that_other_processes_use(tmp_path):
    def build():
        with staged(tmp_path / "made" / "file"):
            (tmp_path / "made" / "theirs").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build()
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["theirs"]


def test_a_target_written_during_the_block_is_kept(tmp_path):
    target = tmp_path / "file"

    def build():
        with staged(target) as path:
            path.write_text("ours")
            target.write_text("theirs")

    with pytest.raises(FileExistsError, match="choose another path"):
        build()
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_target_written_just_before_the_rename_is_kept(tmp_path, monkeypatch, kind):
    target = tmp_path / "target"
    free = staging._require_writable

    def then_theirs(*arguments):
        free(*arguments)
        if list(tmp_path.glob(".target.*/target")):
            write(target, kind, "theirs")

    monkeypatch.setattr(staging, "_require_writable", then_theirs)

    def build():
        with staged(target, is_folder=kind == "folder") as path:
            write(path, kind, "ours")

    with pytest.raises(OSError, match=r"exists|not empty"):
        build()
    assert read(target) == "theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_renamed_on_a_file_system_without_links(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(pathlib.Path, "hardlink_to", unsupported)
    with staged(tmp_path / "file") as path:
        path.write_text("ours")
    assert (tmp_path / "file").read_text() == "ours"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_overwrite_replaces_an_existing_target(tmp_path, kind):
    target = tmp_path / "target"
    write(target, kind, "old")
    with staged(target, overwrite=True, is_folder=kind == "folder") as path:
        write(path, kind, "new")
        assert read(target) == "old"
    assert read(target) == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_old_target_stays_if_the_block_fails(tmp_path, kind):
    target = tmp_path / "target"
    write(target, kind, "old")

    def build():
        with staged(target, overwrite=True, is_folder=kind == "folder") as path:
            write(path, kind, "new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build()
    assert read(target) == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupt_between_the_two_renames_restores_the_old_folder(tmp_path, monkeypatch):
    target, rename = tmp_path / "target", pathlib.Path.rename
    write(target, "folder", "old")

    def interrupted(path, to):
        rename(path, to)
        if path == target:
            raise KeyboardInterrupt
        return to

    monkeypatch.setattr(pathlib.Path, "rename", interrupted)
    interrupt = pytest.raises(KeyboardInterrupt)
    with interrupt, staged(target, overwrite=True, is_folder=True) as path:
        write(path, "folder", "new")
    assert read(target) == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_of_replace_text_names_the_given_path(tmp_path):
    for path, kind in ((tmp_path, IsADirectoryError), (tmp_path / "no" / "a", FileNotFoundError)):
        with pytest.raises(kind) as raised:
            replace_text(path, "new")
        assert raised.value.filename == str(path)


def write(path, kind, text):
    if kind == "folder":
        path.mkdir()
        path = path / "text"
    path.write_text(text)


def read(path):
    return (path / "text" if path.is_dir() else path).read_text()


def test_a_failed_replace_text_keeps_the_old_file(tmp_path):
    file = tmp_path / "file"
    replace_text(file, "old")
    with pytest.raises(TypeError):
        replace_text(file, 3)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_does_not_replace_a_folder_or_the_reverse(tmp_path, kind, overwrite):
    target = tmp_path / "theirs.tflite"
    write(target, kind, "old")
    refused = pytest.raises(FileExistsError, match=f"is a {kind}, so it is not overwritten")
    with refused, staged(target, overwrite, is_folder=kind == "file"):
        pytest.fail("nothing is made that has no place")
    assert read(target) == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_a_link_is_not_overwritten(tmp_path, kind):
    real, target = tmp_path / "real", tmp_path / "link"
    if kind != "nothing":
        write(real, kind, "old")
    target.symlink_to(real)
    refused = pytest.raises(FileExistsError, match=r"link is a link to .*real, so it is not")
    with refused, staged(target, overwrite=True, is_folder=kind == "folder"):
        pytest.fail("nothing is made that has no place")
    assert target.is_symlink()


def test_the_second_file_is_moved_and_an_old_one_is_deleted(tmp_path):
    target, beside = tmp_path / "model", tmp_path / "model.golden"
    with staged(target, beside=beside.name) as path:
        path.write_text("1")
        path.with_name(beside.name).write_text("of 1")
    assert beside.read_text() == "of 1"
    with staged(target, overwrite=True, beside=beside.name) as path:
        path.write_text("2")
    assert target.read_text() == "2"
    assert not beside.exists()


def write_both(target, beside):
    with staged(target, True, beside) as path:
        path.write_text("2")
        path.with_name(beside).write_text("of 2")


def interrupt_move_of(name, monkeypatch):
    """Raise KeyboardInterrupt when a file of this name is moved to its final path."""
    replace = pathlib.Path.replace

    def interrupted(path, target):
        if path.name == name and path.parent != target.parent and ".tmp" not in str(target):
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(pathlib.Path, "replace", interrupted)


@pytest.mark.parametrize(
    ("moved", "left", "beside_left"), [("model", "1", "of 1"), ("model.golden", "2", None)]
)
def test_a_target_is_never_beside_the_second_file_of_another(
    tmp_path, monkeypatch, moved, left, beside_left
):
    target, beside = tmp_path / "model", tmp_path / "model.golden"
    with staged(target, beside=beside.name) as path:
        path.write_text("1")
        path.with_name(beside.name).write_text("of 1")

    interrupt_move_of(moved, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        write_both(target, beside.name)
    assert target.read_text() == left
    assert (beside.read_text() if beside.exists() else None) == beside_left


@pytest.mark.parametrize(
    ("export", "name"),
    [(export_saved_model, "model"), (export_tflite, "model.tflite"), (export_onnx, "model.onnx")],
)
def test_an_existing_target_is_refused_before_the_model_runs(tmp_path, export, name):
    if name.endswith("onnx"):
        pytest.importorskip("tf2onnx")
    calls = []
    model = models.with_function(lambda x: calls.append(x) or x)
    calls.clear()
    (tmp_path / name).mkdir() if name == "model" else (tmp_path / name).touch()
    with pytest.raises(FileExistsError):
        export(model, tmp_path / name)
    assert not calls
