"""Run functions in fresh processes, which have only imported their modules.

A server process imports TensorFlow once, and each fresh process is forked from it (Linux, macOS).
"""

import multiprocessing
from collections.abc import Callable, Iterable
from typing import TypeVar

from benchmarks.timing import in_turn

Result = TypeVar("Result")

PRELOADED = ["benchmarks.models"]  # modules that the server imports


def run(function: Callable[..., Result], *arguments: object) -> Result:
    """Run a function in a fresh process, and return its result or raise its error."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


def rounds(
    function: Callable[..., Result], names: Iterable[str], rounds: int, *arguments: object
) -> dict[str, list[Result]]:
    """Run a function in turn for each name, and return the results of every round."""
    results: dict[str, list[Result]] = {name: [] for name in names}
    for name in in_turn(list(results), rounds):
        results[name].append(run(function, name, *arguments))
    return results
