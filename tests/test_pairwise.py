"""A pairwise selection contains every pair of values, and is small."""

import itertools

from tests.pairwise import pairwise

OPTIONS = {"a": [1, 2, 3], "b": ["x", "y"], "c": [None, {}, []], "d": [True, False]}


def test_every_pair_of_values_occurs_in_few_combinations():
    found = pairwise(**OPTIONS)
    assert len(found) <= 11  # the product has 36
    for first, second in itertools.combinations(OPTIONS, 2):
        pairs = [(chosen[first], chosen[second]) for chosen in found]
        assert all(p in pairs for p in itertools.product(OPTIONS[first], OPTIONS[second]))
    assert found == pairwise(**OPTIONS)
