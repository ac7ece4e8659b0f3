"""Docstrings of recurrent layers and presets, written from the docstrings of their cells.

The docstring of a cell such as `NormLSTMCell` has the equation, the options and the reference. All
other parts are the same for every cell.
"""

import inspect
import re
from typing import NamedTuple, TypeVar

# Sections of the docstring of every recurrent layer. `{states}` is replaced by the names of the
# cell's states, and `{example}` by code that creates a layer.
LAYER_SECTIONS = {
    "Call arguments": """\
    sequences: (batch, time, features).
    initial_state: {states}, of shape (batch, units); by default zeros, or the weights of
        `learn_initial_state`.
    mask: bool (batch, time), True at unmasked timesteps.
    training: whether to apply dropout and to use batch statistics.
    resets: bool (batch, time) or (1, time), True at the first timestep of each sequence, if a
        row has several sequences. Before this timestep the states are set to `initial_state`,
        or else to zeros or the weights of `learn_initial_state`, also with `stateful=True`.
        Results equal those of each sequence alone. In training no norm may have batch
        statistics of a timestep.""",
    "Returns": """\
    The last output (batch, units), or with `return_sequences=True` the outputs at every
    timestep (batch, time, units). With `return_state=True` the states follow.""",
    "Example": """\
    >>> {example}(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])""",
}
LAYER_ARGUMENTS = {
    "units": "    units: size of the state and of the output.",
    "compiled": """\
    compiled: whether XLA compiles the recurrence on TensorFlow. "auto" compiles it in training
        if the cell is supported, True also at inference, False never. On JAX and PyTorch it
        selects the custom gradient, and "auto" uses it at inference too.""",
    "use_cudnn": '    use_cudnn: "auto" or False; both mean that the layer does not run on cuDNN.',
}
PRESET_RAISES = """\
    TypeError: an argument is unknown, missing or repeated.
    ValueError: an argument has an unsupported value, such as `reset_after=False` of a GRU."""

LayerClass = TypeVar("LayerClass", bound=type)


class PresetText(NamedTuple):
    """Texts about one norm for the docstrings of its presets, such as `LayerNormLSTM`.

    Args:
        title: the norm in the first line, such as "LayerNorm".
        symbol: the norm in the equations, such as "LN".
        notes: paragraph about the norm.
        arguments: arguments of the norm, as a part of the section `Args`.
        example: arguments of an example after `units`.
        reference: the paper, or "" for the paper of the cell.
    """

    title: str
    symbol: str
    notes: str
    arguments: str
    example: str
    reference: str


class Docstring:
    """A docstring in Google's style: its paragraphs, and its sections by title."""

    def __init__(self, cls: type) -> None:
        head, *sections = re.split(
            r"\n\n(?=[A-Z][a-z ]+:\n    )", inspect.cleandoc(cls.__doc__ or "")
        )
        self.paragraphs = head.split("\n\n")
        self.sections = dict(section.split(":\n", 1) for section in sections)

    def arguments(self) -> dict[str, str]:
        """Return a dict from the name of each argument to its indented description."""
        entries = re.split(r"\n(?=    [*\w]+: )", self.sections["Args"])
        return {entry.partition(":")[0].strip(): entry for entry in entries}

    def __str__(self) -> str:
        sections = [f"{title}:\n{text}" for title, text in self.sections.items()]
        return "\n\n".join([*self.paragraphs, *sections])


def documented_by_cell(layer: LayerClass) -> LayerClass:
    """Decorate a recurrent layer: create its docstring from the docstring of its cell."""
    cell: type = layer.cell_class  # type: ignore[attr-defined]
    text = Docstring(cell)
    arguments = text.arguments()
    states = arguments["units"].partition("size of ")[2].removesuffix(".")
    arguments["norm"] = (
        f"    norm: a normalization layer, a dict from slots to layers, or None, as for\n"
        f"        `{cell.__name__}`."
    )
    options = arguments.pop("**kwargs")  # the last argument
    arguments |= {**LAYER_ARGUMENTS, "**kwargs": options}
    parts = {
        title: section.format(states=states, example=f"{layer.__name__}(8, LayerNormalization())")
        for title, section in LAYER_SECTIONS.items()
    }
    first = text.paragraphs[0].replace("Compute one step of", "Run")
    text.paragraphs[0] = first.replace(" inside.", " inside over sequences.")
    own = text.sections
    text.sections = {
        "Args": "\n".join(arguments.values()),
        "Call arguments": parts["Call arguments"],
        "Returns": parts["Returns"],
        "Raises": own["Raises"],
        "Example": parts["Example"],
        "Reference": own["Reference"],
    }
    described = str(text).replace("the cell equals", "the layer equals")
    layer.__doc__ = re.sub(r"`(keras\.layers\.\w+)Cell`", r"`\1`", described)
    return layer


def preset_docstring(base: type, name: str, norm: PresetText, is_cell: bool) -> str:
    """Return the docstring of a layer or a cell with one norm, such as `LayerNormLSTM`.

    Args:
        base: the class that takes any norm, such as `NormLSTM`.
        name: name of the preset, such as "LayerNormLSTM".
        norm: the parts that are special to the norm.
        is_cell: whether `base` is a cell.
    """
    text = Docstring(base)
    first, *paragraphs = [part for part in text.paragraphs if "norm=None" not in part]
    first = first.replace("normalization inside", f"{norm.title} inside")
    paragraphs = [re.sub(r"\b\w+_norm\(", f"{norm.symbol}(", part) for part in paragraphs]
    text.paragraphs = [first, *paragraphs, norm.notes]
    arguments = {**text.arguments(), "norm": norm.arguments}
    text.sections["Args"] = "\n".join(arguments.values())
    text.sections["Raises"] = PRESET_RAISES
    created = f"{name}(8{norm.example})"
    created = f"keras.layers.RNN({created})" if is_cell else created
    text.sections["Example"] = LAYER_SECTIONS["Example"].format(example=created)
    text.sections["Reference"] = norm.reference or text.sections["Reference"]
    return str(text)
