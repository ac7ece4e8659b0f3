"""A file or folder is written beside its target, and moved to it in one step."""

import errno
import pathlib

import pytest

from keras_norm.export import export_onnx, export_saved_model, export_tflite
from keras_norm.export.formats import staging
from keras_norm.export.formats.staging import replace_text, staged
from tests.export import models

both_kinds = pytest.mark.parametrize("kind", ["file", "folder"])


def write(path, kind, text):
    if kind == "folder":
        path.mkdir()
        path = path / "text"
    path.write_text(text)


def read(path):
    return (path / "text" if path.is_dir() else path).read_text()


def stage(target, kind="file", beside=None, error=None, during=lambda: None, **options):
    """Write "new" to a target, and to a second file; run `during`, or raise an error."""
    other = None if beside is None else beside.name
    with staged(target, beside=other, is_folder=kind == "folder", **options) as path:
        write(path, kind, "new")
        if beside is not None:
            path.with_name(other).write_text("new")
        during()
        if error is not None:
            raise error


@both_kinds
def test_the_target_appears_after_the_block(tmp_path, kind):
    target = tmp_path / "made" / "here" / "target"
    stage(target, kind, during=lambda: target.exists() and pytest.fail("too early"))
    assert read(target) == "new"
    assert [*target.parent.iterdir()] == [target]


def test_overwrite_must_be_a_bool(tmp_path):
    with pytest.raises(ValueError, match="overwrite must be True or False; received 1"):
        stage(tmp_path / "file", overwrite=1)


@both_kinds
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_no_files_and_keeps_an_old_target(tmp_path, kind, error):
    with pytest.raises(error):
        stage(tmp_path / "made" / "here" / "target", kind, error=error)
    assert [*tmp_path.iterdir()] == []
    write(tmp_path / "target", kind, "old")
    with pytest.raises(error):
        stage(tmp_path / "target", kind, overwrite=True, error=error)
    assert ([*tmp_path.iterdir()], read(tmp_path / "target")) == ([tmp_path / "target"], "old")


def test_a_failure_keeps_folders_that_other_processes_use(tmp_path):
    theirs = tmp_path / "made" / "theirs"
    with pytest.raises(RuntimeError):
        stage(tmp_path / "made" / "file", error=RuntimeError, during=theirs.touch)
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["theirs"]


@both_kinds
def test_overwrite_replaces_an_existing_target(tmp_path, kind):
    target = tmp_path / "target"
    write(target, kind, "old")
    during = []
    stage(target, kind, overwrite=True, during=lambda: during.append(read(target)))
    assert during == ["old"]
    assert ([*tmp_path.iterdir()], read(target)) == ([target], "new")


@both_kinds
@pytest.mark.parametrize("when", ["in the block", "just before the rename"])
def test_a_target_written_by_another_process_is_kept(tmp_path, monkeypatch, kind, when):
    target = tmp_path / "target"
    free = staging._require_writable

    def theirs():
        write(target, kind, "theirs")

    def then_theirs(*arguments):
        free(*arguments)
        if list(tmp_path.glob(".target.*/target")):
            theirs()

    if when != "in the block":
        monkeypatch.setattr(staging, "_require_writable", then_theirs)
    with pytest.raises(OSError, match=r"exists|not empty"):
        stage(target, kind, during=theirs if when == "in the block" else lambda: None)
    assert ([*tmp_path.iterdir()], read(target)) == ([target], "theirs")


def test_a_file_is_renamed_on_a_file_system_without_links(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(pathlib.Path, "hardlink_to", unsupported)
    stage(tmp_path / "file")
    assert read(tmp_path / "file") == "new"


def test_an_interrupt_between_the_two_renames_restores_the_old_folder(tmp_path, monkeypatch):
    target, rename = tmp_path / "target", pathlib.Path.rename
    write(target, "folder", "old")

    def interrupted(path, to):
        rename(path, to)
        if path == target:
            raise KeyboardInterrupt
        return to

    monkeypatch.setattr(pathlib.Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage(target, "folder", overwrite=True)
    assert ([*tmp_path.iterdir()], read(target)) == ([target], "old")


@both_kinds
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_file_does_not_replace_a_folder_or_the_reverse(tmp_path, kind, overwrite):
    target = tmp_path / "theirs.tflite"
    write(target, kind, "old")
    other = "file" if kind == "folder" else "folder"
    with pytest.raises(FileExistsError, match=f"is a {kind}, so it is not overwritten"):
        stage(target, other, overwrite=overwrite, during=pytest.fail)
    assert ([*tmp_path.iterdir()], read(target)) == ([target], "old")


@pytest.mark.parametrize("kind", ["file", "folder", None])
def test_a_link_is_not_overwritten(tmp_path, kind):
    real, target = tmp_path / "real", tmp_path / "link"
    if kind is not None:
        write(real, kind, "old")
    target.symlink_to(real)
    with pytest.raises(FileExistsError, match=r"link is a link to .*real, so it is not"):
        stage(target, kind or "file", overwrite=True, during=pytest.fail)
    assert target.is_symlink()


@pytest.fixture
def pair(tmp_path):
    """Name a target and its second file."""
    return tmp_path / "model", tmp_path / "model.golden"


@pytest.mark.parametrize("when", ["before the block", "in the block"])
def test_a_second_file_is_replaced_with_overwrite_only(tmp_path, pair, when):
    target, other = pair

    def theirs():
        other.write_text("theirs")

    if when == "before the block":
        theirs()
    during = theirs if when == "in the block" else lambda: None
    with pytest.raises(FileExistsError, match=r"golden exists, .* or overwrite=True"):
        stage(target, beside=other, during=during)
    assert (read(other), [*tmp_path.iterdir()]) == ("theirs", [other])
    stage(target, beside=other, during=during, overwrite=True)
    assert (read(target), read(other)) == ("new", "new")


def test_a_folder_at_the_path_of_the_second_file_is_refused_before_the_block(pair):
    target, other = pair
    other.mkdir()
    with pytest.raises(FileExistsError, match="is a folder, but the exporter writes a file"):
        stage(target, beside=other, overwrite=True, during=pytest.fail)


@pytest.mark.parametrize(
    ("moved", "left"), [("model", ("1", "1")), ("model.golden", ("new", None))]
)
def test_a_target_is_never_beside_the_second_file_of_another(pair, monkeypatch, moved, left):
    for path in pair:
        path.write_text("1")
    replace = pathlib.Path.replace

    def interrupted(path, target):
        """Raise KeyboardInterrupt when the file is moved to its final path."""
        if path.name == moved and path.parent != target.parent and ".tmp" not in str(target):
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stage(pair[0], beside=pair[1], overwrite=True)
    assert tuple(path.read_text() if path.exists() else None for path in pair) == left


def test_replace_text_writes_the_whole_text_or_nothing(tmp_path):
    for path, kind in ((tmp_path, IsADirectoryError), (tmp_path / "no" / "a", FileNotFoundError)):
        with pytest.raises(kind) as raised:
            replace_text(path, "new")
        assert raised.value.filename == str(path)
    file = tmp_path / "file"
    replace_text(file, "old")
    with pytest.raises(TypeError):
        replace_text(file, 3)
    assert ([*tmp_path.iterdir()], read(file)) == ([file], "old")


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
