"""Base class of layers that take the arguments of their cell, such as `NormLSTM`."""

import inspect
import operator
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import keras

from keras_norm.layers.arguments import (
    ClassSignature,
    bind_arguments,
    signature,
    with_earlier_values,
)
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.rnn.slots import deserialize_norm
from keras_norm.typing import Config

OWN_ARGUMENTS = signature(NormRNN).parameters


class CellLayer(NormRNN):
    """A recurrent layer that takes the arguments of its cell as its own arguments.

    A subclass sets `cell_class`, and `keras_class` if the cell without norms computes the equation
    of a layer of Keras. Its positional arguments are `units`, then the arguments that only the cell
    has, such as `norm`, then the arguments of `keras_class`.

    Raises:
        TypeError: an unknown, missing or repeated argument, or too many positional arguments.
    """

    cell_class: type[NormCell]
    keras_class: type[keras.layers.RNN] | None = None
    __signature__ = ClassSignature()
    declared: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Add the cell's arguments to the signature and to the attributes of a new layer class."""
        super().__init_subclass__(**kwargs)
        parameters = signature(cls.cell_class).parameters
        of_cell = {name: p for name, p in parameters.items() if name not in OWN_ARGUMENTS}
        order = [] if cls.keras_class is None else inspect.signature(cls.keras_class).parameters
        cls.declared = _order_like(order, {**of_cell, **OWN_ARGUMENTS})
        for name in of_cell.keys() - set(dir(cls)):
            setattr(cls, name, property(operator.attrgetter(f"cell.{name}")))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = bind_arguments(type(self), args, kwargs)
        names = given.keys() & {*OWN_ARGUMENTS, "input_dim", "input_shape"}
        own = {name: given.pop(name) for name in names}
        shared = {name: own[name] for name in ("dtype", "trainable") if name in own}
        super().__init__(self.cell_class(**given, **shared), **own)

    def get_config(self) -> Config:
        """Return the constructor arguments of the layer and of its cell."""
        config = super().get_config()
        del config["cell"]
        return {
            **self.cell.get_config(),
            **config,
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the layer from a configuration of `get_config`."""
        return cls(**with_earlier_values(cls, deserialize_norm(config)))


def _order_like(
    order: Iterable[str], parameters: dict[str, inspect.Parameter]
) -> inspect.Signature:
    """Return a signature in which the parameters named in `order` are positional, in this order."""
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = list(order)
    result = [p.replace(kind=positional) if p.name in names else p for p in parameters.values()]
    result.sort(key=lambda p: (p.kind, names.index(p.name) if p.name in names else 0))
    return inspect.Signature(result)
