"""Format messages as one line each, and hide the C++ logs of TensorFlow and LiteRT."""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from keras_norm_verify import MAX_PRINTED, printable

# Patterns of Python arguments in messages, and the options of the command line to print for them.
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
    """Replace Python arguments in a message by command line options: `step=True` by `--step`.

    Args:
        text: a message of the package.
    """
    for argument, option in OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


@contextlib.contextmanager
def quiet_native_logs() -> Iterator[None]:
    """Hide the C++ logs of TensorFlow and LiteRT inside a `with` block.

    Both libraries write to file descriptor 2 at any log level. If an exception other than an
    interrupt leaves the block, the hidden logs are printed above its traceback. Warnings of
    keras_norm are printed to the terminal.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    terminal = os.dup(2)
    logger = logging.getLogger("keras_norm")
    with tempfile.TemporaryFile() as log, os.fdopen(os.dup(2), "w") as stream:
        warnings = logging.StreamHandler(stream)
        warnings.setFormatter(_OneLine("keras-norm: %(message)s"))
        logger.addHandler(warnings)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except Exception:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            logger.removeHandler(warnings)
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)


class _OneLine(logging.Formatter):
    """Formats a warning as one line, even if the name of a layer contains line breaks."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(with_options(super().format(record)))


def one_line(text: str) -> str:
    """Make text safe to print in a terminal, as one line.

    Args:
        text: any text.
    """
    return printable(" ".join(text.split()), MAX_PRINTED)
