"""What stands in a cell of a table of results."""

from collections.abc import Sequence

from experiments.harness import verdicts


def spread(values: Sequence[float], digits: int) -> str:
    """The mean over seeds, and of three or more the half of its 95 % interval by Student's t.

    >>> spread([97.0, 98.0, 99.0], 1)
    '98.0 ± 2.5'
    >>> spread([97.0, 98.0], 1)
    '97.5'
    """
    mean, half = verdicts.interval(values)
    mean = round(mean, digits) + 0.0  # no -0
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if len(values) > 2 else "")
