"""Groups of columns whose backward pass needs the product of the inputs and the kernel.

tests/rnn/test_equations.py compares the gradients of products with the equations of the papers, and
test_gradient.py compares those of other norms with the loop.
"""

import pytest
import tensorflow as tf

from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.rnn.core.product import Product
from keras_norm.rnn.core.recurrence import Slot
from tests.ops import test_step_norms

FEW, MANY, COLUMNS = 3, 5, 12
NORMS = {"none": None, **test_step_norms.NORMS, "moving": TimestepNorm(1e-2, learning=False)}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_only_batch_norms_few_columns_and_blocks_with_dropout_masks_keep_the_product(norm):
    """The backward pass of other per-sample norms reads the inputs and the kernel instead."""
    slot = Slot("norm", COLUMNS, norm)
    for inputs, features in ((1, FEW), (2, FEW), (1, MANY)):
        product = Product((slot,), tf.ones([features, COLUMNS]), {}, inputs)
        reads = isinstance(norm, TimestepNorm) or inputs > 1 or features == MANY
        assert product.needs_product(slot) == (norm is not None and reads)
