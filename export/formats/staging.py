"""Write a file or folder in a hidden folder, then rename it to its final path in one step."""

import contextlib
import pathlib
import shutil
import uuid
from collections.abc import Iterable, Iterator


@contextlib.contextmanager
def staged(
    target: pathlib.Path,
    overwrite: bool = False,
    beside: str | None = None,
    *,
    is_folder: bool = False,
) -> Iterator[pathlib.Path]:
    """Yield a temporary path; rename it to `target` if the block ends without an exception.

    The temporary path is in a hidden folder beside `target`, on the file system of `target`, so
    that the final rename is atomic. A process that watches the parent folder sees a complete
    `target` or none. After an exception (also an interrupt) this function deletes the hidden folder
    and every parent folder that it created.

    Args:
        target: the file or folder to write. Missing parent folders are created.
        overwrite: whether to replace an existing `target`, or an existing file `beside` it; False
            raises FileExistsError. (A folder is missing for the moment between two renames. Its
            content is complete at any time.)
        beside: name of a second file, stored beside `target`. It is moved with `target` if the
            block wrote it. With `overwrite`, an old file of this name is deleted.
        is_folder: whether the block writes a folder.

    Yields:
        The path to write. Its name is the name of `target`. Its folder is empty, so the block can
        write intermediate files beside the path.

    Raises:
        FileExistsError: `target` or `beside` exists before the block or at its end, and `overwrite`
            is False; or `overwrite` is True, and `target` is a link, a folder instead of a file, or
            a file instead of a folder; or `beside` is a folder.
        NotADirectoryError: a parent of `target` is a file.
        ValueError: `overwrite` is neither True nor False.
    """
    if not isinstance(overwrite, bool):
        raise ValueError(f"overwrite must be True or False; received {overwrite!r}")
    _require_writable(target, overwrite, is_folder)
    other = None if beside is None else target.with_name(beside)
    _require_replaceable(other, overwrite)
    created = missing_folders(target.parent)
    work = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        try:
            work.mkdir(parents=True)
            yield work / target.name
            _require_writable(target, overwrite, is_folder)
            _require_replaceable(other, overwrite)
            with contextlib.ExitStack() as undo:
                if other is not None and other.exists():
                    # Move the old file `other` away. If the new file or folder cannot get its final
                    # name, move `other` back.
                    away = work / f"{other.name}.old"
                    other.replace(away)
                    undo.callback(away.replace, other)
                if overwrite:
                    _replace(work / target.name, target)
                else:
                    _move(work / target.name, target)
                undo.pop_all()
            if other is not None and (work / other.name).exists():
                (work / other.name).replace(other)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except BaseException:
        remove_empty(created)
        raise


def missing_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    """List the missing folders among a folder and its parents, the deepest first.

    Raises:
        NotADirectoryError: the deepest existing parent is a file, or a missing folder is a broken
            link.
    """
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    if missing and missing[-1].is_symlink():
        raise NotADirectoryError(
            f"{missing[-1]} is a link to {missing[-1].readlink()}, which does not exist; make this "
            "folder, or choose another"
        )
    existing = missing[-1].parent if missing else folder
    if not existing.is_dir():
        raise NotADirectoryError(f"{existing} is a file, not a folder; choose another path")
    return missing


def remove_empty(folders: Iterable[pathlib.Path]) -> None:
    """Remove each folder that is empty; `folders` lists subfolders before their parents.

    A folder with content stays, and so do its parents.
    """
    for folder in folders:
        # `rmdir` fails for a folder that has content or is in use. Such a folder stays.
        with contextlib.suppress(OSError):
            folder.rmdir()


def replace_text(path: pathlib.Path, text: str) -> None:
    """Write a text file in one step, and replace an existing file; raise OSError on a failure."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        # `text` can contain file names that are not valid UTF-8. Their bytes are written as
        # backslash escapes.
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        unfinished.replace(path)
    except OSError as error:
        # `error` names the temporary file. Raise an error that names `path`, the user's file.
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _replace(new: pathlib.Path, target: pathlib.Path) -> None:
    """Replace `target` with the file or folder `new`; restore the old `target` on a failure."""
    if not target.is_dir():
        new.replace(target)
        return
    old = new.with_name(f"{target.name}.old")
    try:
        target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _move(new: pathlib.Path, target: pathlib.Path) -> None:
    """Rename a file or folder to `target`; raise OSError if `target` already exists.

    If two exports to one path end together, the later export fails.
    """
    if new.is_dir():  # `rename` fails if `target` is a folder with content
        new.rename(target)
        return
    try:
        # Create a hard link, which fails if `target` exists. A rename would replace `target`.
        target.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links, so the file is renamed instead.
        new.rename(target)


def _require_writable(target: pathlib.Path, overwrite: bool, is_folder: bool) -> None:
    if target.is_symlink():
        raise FileExistsError(
            f"{target} is a link to {target.readlink()}, so it is not overwritten; give the "
            "path of the link's target"
        )
    if not target.exists():
        return
    if target.is_dir() != is_folder:
        kind = "folder" if target.is_dir() else "file"
        raise FileExistsError(
            f"{target} is a {kind}, so it is not overwritten; choose another path"
        )
    if not overwrite:
        raise FileExistsError(f"{target} exists; choose another path, or overwrite=True")


def _require_replaceable(file: pathlib.Path | None, overwrite: bool) -> None:
    """Raise FileExistsError if `file` is a folder, or exists and `overwrite` is False."""
    if file is None or not (file.exists() or file.is_symlink()):
        return
    if file.is_dir():
        raise FileExistsError(
            f"{file} is a folder, but the exporter writes a file of this name; remove the folder"
        )
    if not overwrite:
        raise FileExistsError(
            f"{file} exists, and keras-norm verify would read it as the test inputs and outputs "
            "(golden cases) of the new file; choose another path, or overwrite=True"
        )
