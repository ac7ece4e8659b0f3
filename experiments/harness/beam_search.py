"""Search for the most likely output sequence of a step-by-step model: greedy and beam search."""

from collections.abc import Callable, Mapping

import numpy as np

from experiments.harness.translation_pairs import END, PAD, START

States = Mapping[str, np.ndarray]

# Maps the last token and the states of every row to the probabilities of the next token,
# (rows, tokens), and the next states.
Step = Callable[[np.ndarray, States], tuple[np.ndarray, States]]


def greedy(step: Step, states: States, longest: int) -> list[list[int]]:
    """Choose the most likely next token until END or `longest` tokens.

    Args:
        step: step function of the model.
        states: initial states, one row for each sentence.
        longest: largest number of tokens in a sentence.
    """
    count = len(next(iter(states.values())))
    last, written = np.full(count, START, "int32"), np.full((count, longest), END, "int32")
    for time in range(longest):
        likely, states = step(last, states)
        ended = last == END
        last = np.where(ended, END, likely.argmax(axis=-1)).astype("int32")
        written[:, time] = last
        if (last == END).all():
            break
    return cut(written)


def beam(
    step: Step, states: States, longest: int, width: int, power: float = 1.0
) -> list[list[int]]:
    """Find the most likely sentences by beam search.

    The score of a sentence with n tokens, including END, is log p / n^power. With power 0 it is the
    log-likelihood, which favors short sentences.

    Args:
        step: step function of the model.
        states: initial states, one row for each sentence.
        longest: largest number of tokens in a sentence.
        width: beam width.
        power: exponent of the length.
    """
    count = len(next(iter(states.values())))
    states = {name: np.repeat(value, width, axis=0) for name, value in states.items()}
    written = np.full((count, width, longest), END, "int32")
    last = np.full((count, width), START, "int32")
    # At first all rows of a sentence are equal, so only the first row counts.
    sums = np.where(np.arange(width) == 0, 0.0, -np.inf) + np.zeros((count, 1))
    lengths = np.zeros((count, width), "int32")
    for time in range(longest):
        found, states = step(last.reshape(-1), states)
        with np.errstate(divide="ignore"):
            logs = np.log(found.astype("float64")).reshape(count, width, -1)
        tokens = logs.shape[-1]
        ended = last == END
        logs[ended] = np.where(np.arange(tokens) == END, 0.0, -np.inf)  # only END follows END
        after = sums[:, :, None] + logs
        long = np.broadcast_to((lengths + ~ended)[:, :, None], after.shape)
        worth = (after / long**power).reshape(count, -1)
        best = np.argpartition(-worth, width - 1, axis=1)[:, :width]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(worth, best, 1), 1), 1)
        before, last = best // tokens, (best % tokens).astype("int32")
        sums, lengths = (np.take_along_axis(a.reshape(count, -1), best, 1) for a in (after, long))
        written = np.take_along_axis(written, before[:, :, None], 1)
        written[:, :, time] = last
        chosen = (before + width * np.arange(count)[:, None]).reshape(-1)
        states = {name: value[chosen] for name, value in states.items()}
        if (last == END).all():
            break
    return cut(written[:, 0])


def cut(written: np.ndarray) -> list[list[int]]:
    """Return the tokens of each row before its first END."""
    before = (row[: [*row, END].index(END)] for row in written.tolist())
    return [[token for token in row if token != PAD] for row in before]
