"""A Sphinx extension: the page of a layer describes the arguments that the layer inherits.

The docstring of `LayerNormLSTM` says that the layer takes the arguments of `NormLSTM`. On its page,
the descriptions of `norm_form`, `normalize_carry` and `compiled` come from the docstrings of the
classes that describe them, so that no docstring repeats another.
"""

import inspect
import re
from collections.abc import Iterator, Sequence

from sphinx.application import Sphinx

from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.norm_rnn import NormRNN

ENTRY = re.compile(r"    (\*{0,2}\w+): ")  # the first line of an argument in a docstring


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension; it runs before napoleon, which converts the docstrings."""
    app.connect("autodoc-process-docstring", add_inherited_arguments, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_inherited_arguments(
    app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Insert the descriptions of inherited arguments before `**kwargs`, in signature order."""
    if not (isinstance(documented, type) and issubclass(documented, NormRNN | NormCell)):
        return
    own = described_arguments(lines)
    inherited = [
        line
        for argument in inspect.signature(documented).parameters
        if argument not in own
        for line in inherited_description(documented, argument)
    ]
    if "**kwargs" in own:
        end = next(i for i, line in enumerate(lines) if line.startswith("    **kwargs: "))
        lines[end:end] = inherited


def inherited_description(documented: type, argument: str) -> Sequence[str]:
    """Return the description of an argument in a base class of a layer or of its cell, or none."""
    cell = getattr(documented, "cell_class", object)
    for base in (*documented.__mro__, *cell.__mro__):
        if base.__module__.startswith("keras_norm."):
            found = described_arguments(inspect.cleandoc(base.__doc__ or "").splitlines())
            if argument in found:
                return found[argument]
    return ()


def described_arguments(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of each argument that the section `Args` of a docstring describes.

    >>> described_arguments(["Run.", "", "Args:", "    a: one", "        two.", "    b: three."])
    {'a': ['    a: one', '        two.'], 'b': ['    b: three.']}
    """
    found: dict[str, list[str]] = {}
    for line in section(lines, "Args:"):
        if entry := ENTRY.match(line):
            found[entry[1]] = []
        if found:
            found[list(found)[-1]].append(line)
    return found


def section(lines: Sequence[str], title: str) -> Iterator[str]:
    """Yield the indented lines that follow a title."""
    after = list(lines[list(lines).index(title) + 1 :]) if title in lines else []
    for line in after:
        if not line.startswith("    "):
            return
        yield line
