"""When the fused kernel of batch normalization is used."""

import keras
import pytest
import tensorflow as tf

from keras_norm.ops import kernels
from keras_norm.ops.kernels import uses_fused_batch_norm


def given(shape, dtype="float32"):
    return keras.KerasTensor(shape, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(64, 128, 256), (8192, 512), (2**17, 1)], ids=str)
def test_large_inputs_use_the_fused_kernel(shape, dtype):
    for mode in ("training", "inference"):
        assert uses_fused_batch_norm(given(shape, dtype), len(shape) - 1, mode)


@pytest.mark.parametrize(
    ("shape", "modes"),
    [
        ((None, 64), []),
        ((None, 512), ["inference"]),
        ((None, 128, 256), ["training", "inference"]),
        ((None, None, 32), ["training", "inference"]),
    ],
    ids=str,
)
def test_dynamic_sizes_count_as_typical_sizes(shape, modes):
    """The kernel takes longer to start in training than at inference."""
    inputs = given(shape)
    assert modes == [
        mode for mode in kernels.DYNAMIC_SIZE if uses_fused_batch_norm(inputs, len(shape) - 1, mode)
    ]


SMALL, LARGE = given((32, 64)), given((64, 128, 256))


@pytest.mark.parametrize(
    ("inputs", "axis"),
    [(SMALL, 1), (LARGE, 1), (given((64, 128, 256), "float64"), 2)],
    ids=["small", "channels first", "float64"],
)
def test_small_channels_first_and_float64_inputs_do_not_use_the_fused_kernel(inputs, axis):
    assert not uses_fused_batch_norm(inputs, axis, "training")


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
    assert not uses_fused_batch_norm(LARGE, 2, "training")
