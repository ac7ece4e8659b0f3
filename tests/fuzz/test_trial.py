from tests.fuzz.models import random_model
from tests.fuzz.trial import lost_by_rounding


def test_what_rounding_costs_is_measured_under_masks_too():
    # Of whole sequences, this float16 model is off by 0.001, and by 0.007 of those padded left.
    assert lost_by_rounding(random_model(7)) > 0.005
