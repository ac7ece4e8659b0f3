"""Run a single-step model on whole sequences. Scripts in other processes import this file too."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]


def run_over_time(
    run: Callable[[Arrays], Mapping[str, Array]],
    sequences: Arrays,
    others: Arrays,
    states: Sequence[str],
) -> Arrays:
    """Call `run` once for every timestep, each time with the states of the previous call.

    Args:
        run: the single-step model, a function from input arrays to output arrays.
        sequences: inputs with a time axis, (batch, time, ...), all of equal length.
        others: inputs without a time axis: the initial states, and inputs that are equal at every
            timestep.
        states: names of the states.

    Returns:
        Every output after each timestep, (batch, time, ...), without the states.

    Raises:
        ValueError: the outputs lack a state.
    """
    (length,) = {array.shape[1] for array in sequences.values()}
    steps: list[Arrays] = []
    for t in range(length):
        outputs = run({name: array[:, t] for name, array in sequences.items()} | others)
        if missing := set(states) - outputs.keys():
            raise ValueError(f"the outputs lack the state {', '.join(sorted(missing))}")
        others = others | {name: outputs[name] for name in states}
        steps.append({n: np.asarray(a) for n, a in outputs.items() if n not in states})
    return {name: np.stack([step[name] for step in steps], axis=1) for name in steps[0]}
