"""Choose few combinations of options that contain every pair of values."""

import itertools
from collections.abc import Sequence
from typing import Any


def pairwise(**options: Sequence[Any]) -> list[dict[str, Any]]:
    """List dicts with one value of each option.

    Any two values of two options occur together in at least one dict. So a fault that needs two
    options is found, and the number of dicts is close to the product of the two longest options.

    Args:
        **options: the values of each option.
    """
    choices = [[(name, k) for k in range(len(values))] for name, values in options.items()]
    pairs = itertools.combinations(choices, 2)
    missing = {frozenset(pair) for two in pairs for pair in itertools.product(*two)}
    found = []
    while missing:
        chosen = sorted(min(missing, key=sorted))
        for values in choices:
            if values[0][0] not in dict(chosen):
                gains = [sum(frozenset((v, c)) in missing for c in chosen) for v in values]
                chosen.append(values[gains.index(max(gains))])
        missing -= set(map(frozenset, itertools.combinations(chosen, 2)))
        found.append({name: values[dict(chosen)[name]] for name, values in options.items()})
    return found
