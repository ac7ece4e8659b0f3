"""Format messages as one line each, and hide the C++ logs of TensorFlow and LiteRT."""

import contextlib
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import TextIO

from keras_norm_verify.printable import MAX_PRINTED, printable

# Pattern of a Python argument in a message -> the command line option to print in its place.
OPTIONS = {
    r"""\b(quantize|signature)=["'](\w+)["']""": r"--\1 \2",
    r"\bsamples=(\{[^}]*\}|\w+)": "--samples FILE.npz",
    r"\b(step|warmup)=True": r"--\1",
    r"\bstep=False": "--no-step",
    r"\bmax_timesteps=(\d+)": r"--max-timesteps \1",
    r"\b(norm|where)='([^']*)'": r"--\1 \2",
    r"\bgolden_cases=False": "--no-golden-cases",
    r"\boverwrite=True": "--force",
    r"\ba higher version\b": "a higher --version",
}


def with_options(text: str) -> str:
    """Replace Python arguments in a message by command line options: `step=True` by `--step`."""
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


@contextlib.contextmanager
def quiet_native_logs() -> Iterator[None]:
    """Hide the C++ logs of TensorFlow and LiteRT inside a `with` block.

    Both libraries write to file descriptor 2 at any log level. If an exception other than an
    interrupt leaves the block, the hidden logs are printed above its traceback. Warnings of
    keras_norm are printed to the terminal: the warnings of its logger, and the warnings of the
    module `warnings` about the arguments of a command.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    logger = logging.getLogger("keras_norm")
    with tempfile.TemporaryFile() as log, os.fdopen(os.dup(2), "w") as stream:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(_OneLine("keras-norm: %(message)s"))
        logger.addHandler(handler)
        os.dup2(log.fileno(), 2)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _log_warning_of_command
                yield
        except Exception:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            logger.removeHandler(handler)
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


def _log_warning_of_command(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning about a call in commands.py; ignore warnings about calls in other files."""
    if pathlib.PurePath(filename).parts[-2:] == ("keras_norm_cli", "commands.py"):
        logging.getLogger("keras_norm").warning("%s", message)


class _OneLine(logging.Formatter):
    """Formats a warning as one line, even if the name of a layer contains line breaks."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(with_options(super().format(record)))


def one_line(text: str) -> str:
    """Make text safe to print in a terminal, as one line."""
    return printable(" ".join(text.split()), MAX_PRINTED)
