"""Substitute methods of layers and functions of modules inside a `with` block."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from keras import layers

Function: TypeAlias = Callable[..., Any]
Owner: TypeAlias = layers.Layer | type[layers.Layer] | ModuleType
AnyOwner = TypeVar("AnyOwner", bound=Owner)
# For each layer, class or module: a dict from the name of a function to its substitute.
Substitutes: TypeAlias = Mapping[Owner, Mapping[str, Function]]

_lock = threading.RLock()


@contextmanager
def substituted_functions(
    substitutes: Mapping[AnyOwner, Mapping[str, Function]],
) -> Iterator[None]:
    """Replace methods and functions by substitutes in a `with` block, for the current thread.

    The class, the weights and the configuration of the layers do not change, so no model has to be
    rebuilt. Other threads call the original functions. A second thread that substitutes functions
    waits until the first thread has left its block.

    Args:
        substitutes: for each owner, the functions to call by the name of the function that they
            replace. An owner is a layer (the functions take the arguments of the method without
            `self`), a class of layers (with `self`), or a module that calls the function by its
            name in this module.
    """
    thread = threading.get_ident()
    with _lock, ExitStack() as undo:
        for owner, functions in substitutes.items():
            attributes = dict(vars(owner))
            for name, function in functions.items():
                if name in attributes:
                    undo.callback(_assign, owner, name, attributes[name])
                else:
                    # `owner` only inherits the original, so undo by deleting the substitute.
                    undo.callback(vars(owner).pop, name)
                _assign(owner, name, _limit_to_thread(thread, function, getattr(owner, name)))
        yield


def _assign(owner: Owner, name: str, function: Function) -> None:
    if isinstance(owner, type):
        setattr(owner, name, function)
    else:  # Do not use `setattr`: a Keras layer would track the function as an attribute.
        vars(owner)[name] = function


def _limit_to_thread(thread: int, function: Function, original: Function) -> Function:
    """Return a function that calls `function` in the given thread, else `original`."""

    @functools.wraps(original)
    def either(*args: Any, **kwargs: Any) -> Any:
        here = threading.get_ident() == thread
        return (function if here else original)(*args, **kwargs)

    return either
