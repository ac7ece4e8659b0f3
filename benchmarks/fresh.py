"""Functions run in processes that did nothing before but import what they need.

They are forked from a server that imports TensorFlow once (Linux, macOS), so that no round waits
for it.
"""

import multiprocessing
from collections.abc import Callable, Iterable
from typing import TypeVar

from benchmarks.timing import in_turn

Found = TypeVar("Found")

PRELOADED = ["benchmarks.models"]  # what the server imports


def run(function: Callable[..., Found], *arguments: object) -> Found:
    """What the function returns, or raises, in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


def rounds(
    function: Callable[..., Found], names: Iterable[str], rounds: int, *arguments: object
) -> dict[str, list[Found]]:
    """What the function returns for each name, in turn, every round."""
    found: dict[str, list[Found]] = {name: [] for name in names}
    for name in in_turn(list(found), rounds):
        found[name].append(run(function, name, *arguments))
    return found
