"""Make text from files safe to print."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator

MAX_PRINTED = 2000  # maximum number of printed characters of a path or an error


def printable(text: str, most: int = 100) -> str:
    r"""Make text from a file safe to print in a terminal, as one line.

    Line breaks, escape sequences and marks of the writing direction become escapes such as "\x1b".
    Letters of all languages do not change.

    Args:
        text: any text.
        most: number of characters after which the text is cut.
    """
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def printable_error(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message.

    Args:
        error: any exception, for example of a runtime.
    """
    message = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    line = next(iter(message.strip().splitlines()), type(error).__name__)
    return printable(line, MAX_PRINTED)


def escape_unknown_letters() -> None:
    """Let `print` escape the characters that stdout cannot encode, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Discard everything that this process prints inside a `with` block, also from native code.

    A model can print: its text could look like a verdict.
    """
    with contextlib.ExitStack() as stack, open(os.devnull, "w") as nowhere:
        for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
            try:
                terminal = os.dup(descriptor)
            except OSError:  # A program such as a service may have closed stdout or stderr.
                continue
            stack.callback(os.close, terminal)
            stack.callback(os.dup2, terminal, descriptor)
            if stream is not None:
                stream.flush()
                stack.callback(stream.flush)
            os.dup2(nowhere.fileno(), descriptor)
        yield
