"""Substitute methods of layers while a block runs."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

Method = Callable[..., Any]

_lock = threading.RLock()


@contextmanager
def substituted_methods(substitutes: Mapping[Any, Mapping[str, Method]]) -> Iterator[None]:
    """Substitute methods of layers by functions, in the current thread, inside the block.

    The class, the weights and the configuration of the layers do not change, so no model has to be
    rebuilt. Other threads call the original methods. A second thread that substitutes methods
    waits until the first thread has left its block.

    Args:
        substitutes: for each layer, a mapping of method names to functions. A function takes the
            arguments of the method without `self`.
    """
    thread = threading.get_ident()
    with _lock, ExitStack() as undo:
        for layer, functions in substitutes.items():
            attributes = vars(layer)
            for name, function in functions.items():
                if name in attributes:  # the substitute of an outer block
                    undo.callback(attributes.__setitem__, name, attributes[name])
                else:
                    undo.callback(attributes.pop, name)
                # Assign through the dict, because Keras' `__setattr__` would track the function.
                attributes[name] = _in_thread(thread, function, getattr(layer, name))
        yield


def _in_thread(thread: int, function: Method, original: Method) -> Method:
    """Wrap two functions: `function` runs in the given thread, `original` in all other threads."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        here = threading.get_ident() == thread
        return (function if here else original)(*args, **kwargs)

    return method
