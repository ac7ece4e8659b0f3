"""Write keras_norm/__init__.pyi, the stubs for type checkers and editors: python -m tests.stubs.

The arguments in the stubs are those that `inspect.signature` shows.
"""

import inspect
import pathlib
import subprocess
import sys
from typing import Any

import keras

import keras_norm

PATH = pathlib.Path(keras_norm.__file__).with_suffix(".pyi")

HEAD = """\
# Written by `python -m tests.stubs` (make stubs) from the signatures that Python shows.

from collections.abc import Sequence
from typing import Any

import keras

from keras_norm import compat as compat
from keras_norm import export as export
from keras_norm.recalibrate import recalibrate as recalibrate
from keras_norm.version import __version__ as __version__
"""

PUBLIC = [
    value for name in keras_norm.__all__ if isinstance(value := getattr(keras_norm, name), type)
]


def stubs() -> str:
    """Generate the text of the stubs."""
    classes = sorted(PUBLIC, key=lambda cls: len(cls.__mro__))  # bases first
    text = HEAD + "".join(map(_class, classes)).replace("collections.abc.", "")
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PATH), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _class(cls: type) -> str:
    base = next(c for c in cls.__mro__[1:] if c in PUBLIC or c.__module__.startswith("keras."))
    keras_base = next(c for c in cls.__mro__ if c.__module__.startswith("keras."))
    name = base.__name__ if base in PUBLIC else f"keras.layers.{base.__name__}"
    shown = [_typed(p) for p in inspect.signature(cls).parameters.values()]
    types = {p.name: inspect.formatannotation(p.annotation) for p in shown}
    known = _attributes(base) if base in PUBLIC else set(dir(_built(keras_base)))
    lines = [f"{a}: {types.get(a, 'Any')}" for a in sorted(_attributes(cls) - known)]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = str(inspect.Signature([own, *shown], return_annotation=None))
    lines.append(f"def __init__{taken}: ...")
    return "\n".join([f"class {cls.__name__}({name}):", *(f"    {line}" for line in lines), ""])


def _typed(p: inspect.Parameter) -> inspect.Parameter:
    """Give a parameter without an annotation the type of its bool or float default, else Any."""
    if p.annotation is not p.empty:
        return p
    return p.replace(annotation=type(p.default) if type(p.default) in (bool, float) else Any)


def _attributes(cls: type) -> set[str]:
    """Collect the public attributes of a built layer: arguments, weights and sublayers."""
    layer = _built(cls)
    names = set(inspect.signature(cls).parameters)
    return {
        name
        for name, value in inspect.getmembers(layer)
        if not name.startswith("_")
        and (name in names or value is None or isinstance(value, keras.Variable | keras.Layer))
    }


def _built(cls: Any) -> Any:
    if cls is keras.layers.RNN:
        return keras.layers.RNN(keras.layers.LSTMCell(1))
    required = {"units": 1, "max_timesteps": 1}
    layer = cls(**{n: v for n, v in required.items() if n in inspect.signature(cls).parameters})
    if cls is not keras.Layer:
        layer.build((None, 2) if cls.__name__.endswith("Cell") else (None, 2, 2))
    return layer


if __name__ == "__main__":
    PATH.write_text(stubs())
