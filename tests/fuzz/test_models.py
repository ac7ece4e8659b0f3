import numpy as np
import pytest

from tests.fuzz.models import random_model

pytestmark = pytest.mark.filterwarnings("ignore:.*does not support masking:UserWarning")


def test_a_seed_gives_equal_models_after_other_calls():
    first = random_model(5)
    random_model(6)
    second = random_model(5)
    assert first.policy == second.policy
    assert first.model.to_json() == second.model.to_json()
    for a, b in zip(first.model.get_weights(), second.model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, values in first.data.items():
        np.testing.assert_array_equal(values, second.data[name])


def test_the_dtype_policy_does_not_change_the_weights():
    drawn, exact = random_model(5), random_model(5, policy="float64")
    assert exact.model.compute_dtype == "float64"
    for a, b in zip(drawn.model.get_weights(), exact.model.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
