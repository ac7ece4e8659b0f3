"""Constructor arguments: declared once, where they are read, and shown by all that take them."""

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, ClassVar

import keras

# What Keras reads from **kwargs and declares nowhere.
UNDECLARED = frozenset(["implementation", "input_dim", "input_shape"])
KERAS_ARGUMENTS = inspect.signature(keras.layers.Layer.__init__).parameters


class ClassSignature:
    """What `inspect.signature` shows of a class, but not of its layers: calling one is another.

    A class derived elsewhere, with an `__init__` of its own, shows that.
    """

    def __get__(self, layer: Any, cls: Any) -> inspect.Signature | None:
        """The arguments that the class declares."""
        return cls.declared if layer is None and is_ours(cls) else None


class DeclaredArguments(keras.layers.Layer):
    """Shows, and checks, the arguments of all bases as the class's own."""

    __signature__ = ClassSignature()
    declared: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Gather the arguments."""
        super().__init_subclass__(**kwargs)
        cls.declared = signature(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse wrong arguments in the name of the class that was called."""
        if is_ours(cls):  # another may read more from its **kwargs
            by_name(cls, args, kwargs)
        return super().__new__(cls, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument, each of which is an attribute of its name."""
        config = super().get_config()
        ours: Any = next(cls for cls in type(self).__mro__ if is_ours(cls))
        names = [n for n in ours.declared.parameters if n not in {*config, *KERAS_ARGUMENTS}]
        own = {name: getattr(self, name) for name in names}
        return {**config, **keras.saving.serialize_keras_object(own)}


def signature(cls: type) -> inspect.Signature:
    """The arguments of a layer's `__init__`, and of those that it hands *args, **kwargs on to.

    Those that classes name in `HIDDEN` are given by a class, and by no user; `DEFAULTS` are other
    defaults than those of the base that declares an argument.
    """
    hidden = {name for base in cls.__mro__ for name in vars(base).get("HIDDEN", ())}
    defaults = {n: v for base in cls.__mro__ for n, v in vars(base).get("DEFAULTS", {}).items()}
    bases = cls.__mro__[: cls.__mro__.index(keras.layers.Layer) + 1]
    found: dict[str, inspect.Parameter] = {}
    handed_on = True  # whether arguments by position are
    for init in [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]:
        _, *own = inspect.signature(init).parameters.values()
        for p in own:
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in hidden:
                kind = p.kind if handed_on else p.KEYWORD_ONLY
                default = defaults.get(p.name, p.default)
                found.setdefault(p.name, p.replace(kind=kind, default=default))
        handed_on = handed_on and any(p.kind is p.VAR_POSITIONAL for p in own)
    return inspect.Signature(sorted(found.values(), key=lambda p: p.kind))


def is_ours(cls: type) -> bool:
    """Whether the `__init__` of a class is one of this package's."""
    return cls.__init__.__module__.startswith("keras_norm.")  # type: ignore[misc]


def by_name(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, each by its name.

    Raises:
        TypeError: one is unknown, missing or given twice, or too many are given by position.
    """
    try:
        bound = cls.declared.bind(*args, **{n: v for n, v in kwargs.items() if n not in UNDECLARED})
    except TypeError as error:
        raise TypeError(
            f"{cls.__name__}: {error}. {_advice(cls, kwargs, str(error))} "
            f"Received {len(args)} by position, {', '.join(kwargs) or 'none'} by name."
        ) from None
    return {**kwargs, **bound.arguments}


def _advice(cls: Any, given: Iterable[str], error: str) -> str:
    """What to do about wrong arguments."""
    names = list(cls.declared.parameters)
    for name in [name for name in given if f"'{name}'" in error and name not in names]:
        for base in cls.__mro__[1:]:
            if name in getattr(getattr(base, "declared", None), "parameters", ()):
                return f"{base.__name__} has it."
        for near in difflib.get_close_matches(name, names, n=1, cutoff=0.75):
            return f"Did you mean {near!r}?"
    if "'max_timesteps'" in error:
        return "It is the number of timesteps with statistics of their own."
    return f"It takes {', '.join(names)}."
