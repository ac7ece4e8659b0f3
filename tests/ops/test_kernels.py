"""When the fused kernel of batch normalization is used."""

import keras
import pytest
import tensorflow as tf

from keras_norm.ops import kernels
from keras_norm.ops.kernels import uses_fused_batch_norm

LARGE, BOTH = (64, 128, 256), ["training", "inference"]


@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "modes"),
    [
        (LARGE, "float32", 2, BOTH),
        ((8192, 512), "float16", 1, BOTH),
        ((2**17, 1), "bfloat16", 1, BOTH),
        ((32, 64), "float32", 1, []),
        (LARGE, "float32", 1, []),
        (LARGE, "float64", 2, []),
        # The kernel takes longer to start in training than at inference.
        ((None, 64), "float32", 1, []),
        ((None, 512), "float32", 1, ["inference"]),
        ((None, 128, 256), "float32", 2, BOTH),
        ((None, None, 32), "float32", 2, BOTH),
    ],
    ids=str,
)
def test_large_inputs_in_up_to_32_bits_with_the_features_last_use_the_kernel(
    shape, dtype, axis, modes
):
    x = keras.KerasTensor(shape, dtype)
    assert [mode for mode in kernels.DYNAMIC_SIZE if uses_fused_batch_norm(x, axis, mode)] == modes


@pytest.mark.parametrize(
    ("owner", "name", "function"),
    [
        (keras.backend, "backend", lambda: "jax"),
        (tf.config, "list_logical_devices", lambda kind: [kind]),
    ],
    ids=["another backend", "a GPU"],
)
def test_the_fused_kernel_runs_only_on_tensorflow_and_a_cpu(owner, name, function, monkeypatch):
    monkeypatch.setattr(owner, name, function)
    assert not uses_fused_batch_norm(keras.KerasTensor(LARGE), 2, "training")
