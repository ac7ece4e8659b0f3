"""What makes a cell and the loop around it one layer, as Keras' own are."""

import inspect
import operator
from typing import Any, ClassVar

import keras

from keras_norm.layers.arguments import ClassSignature, bind_arguments, signature
from keras_norm.rnn.cell import with_norm
from keras_norm.rnn.sequence import NormRNN

OWN_ARGUMENTS = signature(NormRNN).parameters


class CellLayer(NormRNN):
    """A `NormRNN` that takes the arguments of its cell as its own.

    A subclass names its cell, and the layer of Keras' whose positional arguments it takes in that
    layer's order; those that only the cell has come after `units`.

    Raises:
        TypeError: an argument that is unknown, missing, or given twice, or too many by position.
    """

    cell_class: type[Any]
    keras_class: type[Any]
    __signature__ = ClassSignature()
    declared: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the cell's arguments be seen, and read, as the layer's own."""
        super().__init_subclass__(**kwargs)
        taken = signature(cls.cell_class).parameters
        cells = {name: p for name, p in taken.items() if name not in OWN_ARGUMENTS}
        cls.declared = _in_order_of(cls.keras_class, {**cells, **OWN_ARGUMENTS})
        for name in cells.keys() - set(dir(cls)):
            setattr(cls, name, property(operator.attrgetter(f"cell.{name}")))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = bind_arguments(type(self), args, kwargs)
        names = given.keys() & {*OWN_ARGUMENTS, "input_dim", "input_shape"}
        own = {name: given.pop(name) for name in names}
        shared = {name: own[name] for name in ("dtype", "trainable") if name in own}
        super().__init__(self.cell_class(**given, **shared), **own)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument, the cell's among them."""
        config = super().get_config()
        del config["cell"]
        return {
            **self.cell.get_config(),
            **config,
            "activity_regularizer": keras.regularizers.serialize(self.activity_regularizer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer that `get_config` describes."""
        return cls(**with_norm(config))


def _in_order_of(keras_class: type, taken: dict[str, inspect.Parameter]) -> inspect.Signature:
    """Arguments with those that a layer of Keras' takes by position in its order."""
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    theirs = inspect.signature(keras_class).parameters.values()
    order = [p.name for p in theirs if p.kind is positional]
    found = [p.replace(kind=positional) if p.name in order else p for p in taken.values()]
    found.sort(key=lambda p: (p.kind, order.index(p.name) if p.name in order else 0))
    return inspect.Signature(found)
