"""Write keras_norm/__init__.pyi, the stubs for type checkers and editors: python -m tests.stubs.

The arguments are those that `inspect.signature` shows, and the docstrings are those of `help`.
Editors find neither in the sources, where each of them is written once.
"""

import inspect
import pathlib
import re
import subprocess
import sys
import textwrap

import keras

import keras_norm
from keras_norm.typing import Serializable

PATH = pathlib.Path(keras_norm.__file__).with_suffix(".pyi")

HEAD = """\
# Written by `python -m tests.stubs` (make stubs) from the signatures that Python shows.

from collections.abc import Callable, Mapping, Sequence

import keras

from keras_norm import compat as compat
from keras_norm import export as export
from keras_norm.conversion.convert import convert as convert
from keras_norm.conversion.convert import to_keras as to_keras
from keras_norm.packed_sequences import PackedSequences as PackedSequences
from keras_norm.packed_sequences import pack_sequences as pack_sequences
from keras_norm.recalibration.assign_statistics import assign_statistics as assign_statistics
from keras_norm.recalibration.collect_statistics import collect_statistics as collect_statistics
from keras_norm.recalibration.merge_statistics import merge_statistics as merge_statistics
from keras_norm.recalibration.recalibrate import recalibrate as recalibrate
from keras_norm.recalibration.statistics import Statistics as Statistics
from keras_norm.rnn.bidirectional import Bidirectional as Bidirectional
from keras_norm.statistics_plot import plot_statistics as plot_statistics
from keras_norm.typing import Serializable, Tensor
from keras_norm.version import __version__ as __version__
"""

# Types by the last word of a name, for the arguments that Keras declares without a type. An
# attribute holds the object that Keras makes from the argument.
ARGUMENT_TYPES = {
    "activation": "Serializable",
    "constraint": "Serializable",
    "dtype": "str | keras.DTypePolicy | None",
    "initializer": "Serializable",
    "name": "str | None",
    "regularizer": "Serializable",
    "seed": "int | keras.random.SeedGenerator | None",
}
ATTRIBUTE_TYPES = {
    **ARGUMENT_TYPES,
    "activation": "Callable[..., Tensor]",
    "constraint": "keras.constraints.Constraint | None",
    "initializer": "keras.initializers.Initializer",
    "regularizer": "keras.regularizers.Regularizer | None",
}

PUBLIC = [
    value
    for name in keras_norm.__all__
    if isinstance(value := getattr(keras_norm, name), type)
    if issubclass(value, keras.layers.Layer) and f" as {name}\n" not in HEAD
]


def stubs() -> str:
    """Generate the text of the stubs."""
    classes = sorted(PUBLIC, key=lambda cls: len(cls.__mro__))  # bases first
    text = HEAD + "".join(map(_class, classes))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PATH), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _class(cls: type[keras.layers.Layer]) -> str:
    base = next(c for c in cls.__mro__[1:] if c in PUBLIC or c.__module__.startswith("keras."))
    keras_base = next(c for c in cls.__mro__ if c.__module__.startswith("keras."))
    name = base.__name__ if base in PUBLIC else f"keras.layers.{base.__name__}"
    parameters = inspect.signature(cls).parameters
    known = _attributes(base) if base in PUBLIC else set(dir(_built(keras_base)))
    lines = [f"{a}: {_attribute_type(cls, a)}" for a in sorted(_attributes(cls) - known)]
    keyword_only = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    arguments = [
        f"{'*, ' if keyword_only[:1] == [p.name] else ''}{p.name}: {_argument_type(p)}"
        f"{'' if p.default is p.empty else f' = {p.default!r}'}"
        for p in parameters.values()
    ]
    lines.append(f"def __init__(self, {', '.join(arguments)}) -> None: ...")
    lines = [f'"""{inspect.cleandoc(cls.__doc__ or "")}\n"""', *lines]
    return f"class {cls.__name__}({name}):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def _argument_type(p: inspect.Parameter) -> str:
    """Return an argument's annotation, or else the type of its name or of its default."""
    if p.annotation is not p.empty:
        return _text(p.annotation)
    if known := ARGUMENT_TYPES.get(p.name.split("_")[-1]):
        return known
    if not isinstance(p.default, bool | float):
        raise TypeError(f"Add the type of the argument {p.name!r} to ARGUMENT_TYPES.")
    return type(p.default).__name__


def _attribute_type(cls: type[keras.layers.Layer], name: str) -> str:
    """Return the type of a class annotation, an argument, a weight or a sublayer."""
    for base in cls.__mro__:
        if base.__module__.startswith("keras_norm.") and name in inspect.get_annotations(base):
            return _text(inspect.get_annotations(base)[name])
    if known := ATTRIBUTE_TYPES.get(name.split("_")[-1]):
        return known
    if name in inspect.signature(cls).parameters:
        return _argument_type(inspect.signature(cls).parameters[name])
    value = getattr(_built(cls), name)
    return "keras.Variable" if isinstance(value, keras.Variable) else type(value).__name__


def _text(annotation: object) -> str:
    """Write an annotation with the names that the stubs import."""
    if annotation == Serializable:
        return "Serializable"
    text = inspect.formatannotation(annotation).replace("collections.abc.", "")
    return re.sub(r"keras\.src\.[\w.]+", lambda match: _public_name(match[0]), text)


def _public_name(path: str) -> str:
    """Return the public name of a class of Keras, which `keras.src` defines."""
    name = path.rpartition(".")[2]
    return f"keras.layers.{name}" if hasattr(keras.layers, name) else f"keras.{name}"


def _attributes(cls: type[keras.layers.Layer]) -> set[str]:
    """Collect the public attributes of a built layer: arguments, weights and sublayers."""
    layer = _built(cls)
    names = set(inspect.signature(cls).parameters)
    return {
        name
        for name, value in inspect.getmembers(layer)
        if name[0].islower()
        and (name in names or value is None or isinstance(value, keras.Variable | keras.Layer))
    }


def _built(cls: type[keras.layers.Layer]) -> keras.layers.Layer:
    if cls is keras.layers.RNN:
        return keras.layers.RNN(keras.layers.LSTMCell(1))
    required = {"units": 1, "max_timesteps": 1}
    layer = cls(**{n: v for n, v in required.items() if n in inspect.signature(cls).parameters})
    if cls is not keras.Layer:
        layer.build((None, 2) if cls.__name__.endswith("Cell") else (None, 2, 2))
    return layer


if __name__ == "__main__":
    PATH.write_text(stubs())
