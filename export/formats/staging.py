"""Build a file or folder out of sight, then move it into place in one step."""

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
    """Yield a path to build at; rename it to `target` when the block ends without an exception.

    The build happens in a hidden folder beside `target`, on the same file system, so that the
    final rename is atomic: whoever watches the parent folder sees all of `target` or nothing. On
    an exception (an interrupt too) the hidden folder goes, with every parent folder made here.

    Args:
        target: the file or folder to make. Missing parent folders are made.
        overwrite: whether it takes the place of what stands there; else that is refused. (A folder
            is not there for the moment between two renames; what it holds is whole at any time.)
        beside: name of a file that belongs to it, and is moved with it where the block made one;
            an old one goes.
        is_folder: whether the block makes a folder.

    Yields:
        The path to build at: same name as `target`, in an otherwise empty folder of its own, so
        intermediate files can stand beside it.

    Raises:
        FileExistsError: `target` exists, before the block or by its end; or, to be overwritten, is
            a link, a folder where a file is made, or a file where a folder is. Or `beside` is a
            folder.
        NotADirectoryError: a parent of `target` is a file.
        ValueError: `overwrite` is neither True nor False.
    """
    if not isinstance(overwrite, bool):
        raise ValueError(f"overwrite must be True or False; received {overwrite!r}")
    _require_free(target, overwrite, is_folder)
    other = None if beside is None else target.with_name(beside)
    if other is not None and other.is_dir():
        raise FileExistsError(f"{other} is a folder, where a file is to be")
    made = missing_folders(target.parent)
    work = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        try:
            work.mkdir(parents=True)
            yield work / target.name
            _require_free(target, overwrite, is_folder)
            with contextlib.ExitStack() as undo:
                if other is not None and other.exists():  # it never stands beside another file
                    away = work / f"{other.name}.old"
                    other.replace(away)
                    undo.callback(away.replace, other)
                if overwrite:
                    _take_place(work / target.name, target)
                else:
                    _move(work / target.name, target)
                undo.pop_all()
            if other is not None and (work / other.name).exists():
                (work / other.name).replace(other)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except BaseException:
        remove_empty(made)
        raise


def missing_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    """Those of a folder and its parents that are still to be made, the deepest first.

    Raises:
        NotADirectoryError: what they are to be made in is a file.
    """
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    if missing and missing[-1].is_symlink():
        raise NotADirectoryError(
            f"{missing[-1]} is a link to {missing[-1].readlink()}, which does not exist: make that "
            "folder, or choose another"
        )
    standing = (missing[-1] if missing else folder / "here").parent
    if not standing.is_dir():
        raise NotADirectoryError(f"{standing} is a file, so nothing can be written inside it")
    return missing


def remove_empty(folders: Iterable[pathlib.Path]) -> None:
    """Remove folders, the deepest first; those that hold something stay, with all above them."""
    for folder in folders:
        with contextlib.suppress(OSError):  # somebody else uses it
            folder.rmdir()


def replace_text(path: pathlib.Path, text: str) -> None:
    """Write a file in one step, over the one that may stand there.

    Args:
        path: the file.
        text: what it will hold.

    Raises:
        OSError: it cannot be written: a folder is missing or stands there, no permission.
    """
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        # A file's name need not be UTF-8.
        unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        unfinished.replace(path)
    except OSError as error:  # which names the unfinished file
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _take_place(new: pathlib.Path, target: pathlib.Path) -> None:
    """Rename a file or folder over another one, which is back in its place if that fails."""
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
    """Give a file or folder a name that is free: of two that end at once the later one fails."""
    if new.is_dir():  # no folder takes the place of one that holds something
        new.rename(target)
        return
    try:
        target.hardlink_to(new)  # a file that is renamed takes the place of another one
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        new.rename(target)


def _require_free(target: pathlib.Path, overwrite: bool, is_folder: bool) -> None:
    if target.is_symlink():
        raise FileExistsError(
            f"{target} is a link to {target.readlink()}, and is not overwritten: name that itself"
        )
    if not target.exists():
        return
    if target.is_dir() != is_folder:
        kind = "folder" if target.is_dir() else "file"
        raise FileExistsError(f"{target} is a {kind}, and is not overwritten: choose another name")
    if not overwrite:
        raise FileExistsError(f"{target} exists: choose another name, or overwrite=True (--force)")
