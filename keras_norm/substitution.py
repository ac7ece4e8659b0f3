"""Other functions in place of the methods of layers, while a block runs."""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

Method = Callable[..., Any]

_lock = threading.RLock()


@contextmanager
def substituted_methods(substitutes: Mapping[Any, Mapping[str, Method]]) -> Iterator[None]:
    """Call other functions in place of layers' methods, in this thread.

    The layers keep their class, weights and configuration, so nothing is rebuilt. Other threads
    call the original methods. A second thread that substitutes methods waits for the first.

    Args:
        substitutes: functions by method name, by layer. A function takes the arguments of the
            method, without `self`.
    """
    thread = threading.get_ident()
    with _lock, ExitStack() as undo:
        for layer, functions in substitutes.items():
            attributes = vars(layer)
            for name, function in functions.items():
                if name in attributes:  # substituted in an outer block
                    undo.callback(attributes.__setitem__, name, attributes[name])
                else:
                    undo.callback(attributes.pop, name)
                # Keras' `__setattr__` would track the function.
                attributes[name] = _in_thread(thread, function, getattr(layer, name))
        yield


def _in_thread(thread: int, function: Method, original: Method) -> Method:
    """The function for one thread, the original method for all others."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        here = threading.get_ident() == thread
        return (function if here else original)(*args, **kwargs)

    return method
