"""Collect the constructor arguments that a class and its bases declare."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras

from keras_norm.typing import Config

# Arguments that Keras reads from **kwargs and does not declare.
UNDECLARED = frozenset(["implementation", "input_dim", "input_shape"])
# Arguments that configs of an older keras_norm lack, with the values that keep the old outputs.
EARLIER_VALUES = {"count_leading_padding": True}
KERAS_ARGUMENTS = inspect.signature(keras.layers.Layer.__init__).parameters


class ClassSignature:
    """Descriptor that shows the constructor's arguments to `inspect.signature(cls)`.

    `inspect.signature(layer)` still shows the arguments of the layer's call. A user's subclass
    with its own `__init__` shows the arguments of that `__init__`.
    """

    def __get__(self, layer: object, cls: Any) -> inspect.Signature | None:
        """Return the constructor's signature for a layer class, and None for its instances."""
        return cls.declared if layer is None and has_package_init(cls) else None


class DeclaredArguments(keras.layers.Layer):
    """Base class that checks a layer's constructor arguments, and lists them for `inspect`."""

    __signature__ = ClassSignature()
    declared: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Collect the constructor arguments of the new class."""
        super().__init_subclass__(**kwargs)
        cls.declared = signature(cls)

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """Raise TypeError for wrong constructor arguments, and name the class in the message."""
        # Check only an `__init__` of keras_norm: a user's `__init__` may accept other arguments.
        if has_package_init(cls):
            bind_arguments(cls, args, kwargs)
        layer: Self = super().__new__(cls, *args, **kwargs)
        return layer

    def get_config(self) -> Config:
        """Return the value of every constructor argument, from the attribute of the same name.

        Raises:
            ValueError: an argument of a user's `__init__` has no attribute, and the user's class no
                `get_config`: a saved model would lose the argument.
        """
        config: Config = super().get_config()
        base: Any = next(cls for cls in type(self).__mro__ if has_package_init(cls))
        declared: inspect.Signature = vars(base)["declared"]
        own = [name for name in self.declared.parameters if name not in declared.parameters]
        if type(self).get_config is base.get_config:
            _require_attributes(self, own)
        names = [*declared.parameters, *(name for name in own if hasattr(self, name))]
        names = [name for name in names if name not in {*config, *KERAS_ARGUMENTS}]
        arguments = {name: getattr(self, name) for name in names}
        return {**config, **keras.saving.serialize_keras_object(arguments)}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Create the layer from a config, also from the config of an older keras_norm."""
        return cls(**with_earlier_values(cls, config))


def _require_attributes(layer: keras.layers.Layer, names: Iterable[str]) -> None:
    """Raise ValueError for arguments of a user's `__init__` that the layer does not store."""
    for name in names:
        if not hasattr(layer, name):
            cls = type(layer).__name__
            raise ValueError(
                f"{cls} '{layer.name}' cannot be saved or copied: its argument {name!r} would be "
                f"lost. Received: no attribute {name!r}. Set self.{name} in __init__ of {cls}, or "
                "override get_config."
            )


def signature(cls: type) -> inspect.Signature:
    """Collect the arguments of a layer's `__init__` and of its bases' `__init__`s.

    A class may define two attributes. `HIDDEN` names arguments that the class sets itself, so users
    cannot. `DEFAULTS` replaces the default values that a base declares.
    """
    hidden = {name for base in cls.__mro__ for name in vars(base).get("HIDDEN", ())}
    defaults = {n: v for base in cls.__mro__ for n, v in vars(base).get("DEFAULTS", {}).items()}
    bases = cls.__mro__[: cls.__mro__.index(keras.layers.Layer) + 1]
    found: dict[str, inspect.Parameter] = {}
    # An `__init__` without *args passes no positional arguments to its base class. So the arguments
    # of its base classes are keyword-only.
    positional = True
    for init in [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]:
        _, *own = inspect.signature(init).parameters.values()
        for p in own:
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in hidden:
                kind = p.kind if positional else p.KEYWORD_ONLY
                default = defaults.get(p.name, p.default)
                found.setdefault(p.name, p.replace(kind=kind, default=default))
        positional = positional and any(p.kind is p.VAR_POSITIONAL for p in own)
    return inspect.Signature(sorted(found.values(), key=lambda p: p.kind))


def has_package_init(cls: type) -> bool:
    """Return whether the `__init__` of a class is defined in keras_norm."""
    init: Callable[..., None] = cls.__init__  # type: ignore[misc]
    return init.__module__.startswith("keras_norm.")


def bind_arguments(cls: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Config:
    """Map the arguments of a constructor call to their names.

    Raises:
        TypeError: an argument is unknown, missing or given twice, or too many are positional.
    """
    try:
        bound = cls.declared.bind(*args, **{n: v for n, v in kwargs.items() if n not in UNDECLARED})
    except TypeError as error:
        raise TypeError(
            f"{cls.__name__}: {error}. {_suggest_correction(cls, kwargs, str(error))} "
            f"Received {len(args)} positional arguments, and the keyword arguments: "
            f"{', '.join(kwargs) or 'none'}."
        ) from None
    return {**kwargs, **bound.arguments}


def with_earlier_values(cls: Any, config: Config) -> Config:
    """Add the arguments that a config of an older keras_norm lacks, from `EARLIER_VALUES`.

    A user's `__init__` that accepts fixed arguments receives no others. A user's `get_config` that
    never writes an argument does not show the revision of a config, so nothing is added.
    """
    own = inspect.signature(cls.__init__).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in own.values())
    accepted = own.keys() | (cls.declared.parameters.keys() if takes_any else ())
    earlier = {n: v for n, v in EARLIER_VALUES.items() if n in accepted and n not in config}
    if earlier and not cls.get_config.__module__.startswith("keras_norm."):
        written = cls(**config).get_config()
        earlier = {name: v for name, v in earlier.items() if name in written}
    return earlier | config


def _suggest_correction(cls: Any, given: Iterable[str], error: str) -> str:
    """Return advice on how to correct the arguments of a constructor call."""
    names = list(cls.declared.parameters)
    for name in [name for name in given if f"'{name}'" in error and name not in names]:
        for base in cls.__mro__[1:]:
            if name in getattr(getattr(base, "declared", None), "parameters", ()):
                return f"Only {base.__name__} takes {name!r}."
        for near in difflib.get_close_matches(name, names, n=1, cutoff=0.75):
            return f"Did you mean {near!r}?"
    if "'max_timesteps'" in error:
        return "Give max_timesteps, the number of timesteps with their own statistics."
    return f"{cls.__name__} takes {', '.join(names)}."
