"""Check the contract of a layer: config, weights, masks, shapes, dtypes, saving, training."""

import copy
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

PACKAGE = "keras_norm"


def check_layer(
    cls: type,
    kwargs: dict,
    input_shape: tuple[int, ...],
    *,
    expected_trainable: int,
    expected_non_trainable: int,
    train: bool = True,
) -> None:
    """Check that a layer class keeps the contract of all layers of the package.

    The message of a failure names the failed check. All checks, apart from those of dtype policies,
    use a single layer, because each new layer would have to be traced. Inference must be
    deterministic and change no state. The inputs need a batch of 4 or more. `train` checks that a
    training step changes every trainable weight.
    """
    x = np.random.default_rng(0).normal(size=input_shape).astype("float32")
    keras.utils.set_random_seed(1)
    with _check("registered under the package's name"):
        assert keras.saving.get_registered_name(cls) == f"{PACKAGE}>{cls.__name__}"
    with _check("unknown argument refused by name"):
        assert_refused(lambda: cls(**kwargs, no_such_argument=1), "no_such_argument")
    with _check("config round trip"):
        config = cls(**kwargs).get_config()
        assert cls.from_config(copy.deepcopy(config)).get_config() == config
    with _check("JSON round trip of the config"):
        assert cls.from_config(json.loads(json.dumps(config))).get_config() == config
    with _check("constructor attributes unchanged by build and call"):
        layer = cls(**kwargs)
        config = layer.get_config()
        before = {key: copy.copy(getattr(layer, key)) for key in config if hasattr(layer, key)}
        layer(x, training=True)
        expected = layer(x)
        for key, value in before.items():
            after = getattr(layer, key)
            assert type(after) is type(value), f"{key}: {value!r} became {after!r}"
            if not hasattr(value, "get_config"):
                assert after == value, f"{key}: {value!r} became {after!r}"
        assert layer.get_config() == config
    with _check("trainable weight count"):
        assert len(layer.trainable_weights) == expected_trainable
    with _check("non-trainable weight count"):
        # The states of seed generators are variables, but not weights.
        assert len(layer.non_trainable_weights) == expected_non_trainable
    with _check("masking supported"):
        assert cls(**kwargs).supports_masking
    with _check("mask passed through"):
        _check_mask(layer, x)
    with _check("compute_output_shape agrees with the call"):
        declared = cls(**kwargs).compute_output_shape(input_shape)
        shapes = [spec[0] for spec in _specs(expected)]
        assert _shapes(declared, len(shapes)) == shapes
    with _check("dynamic batch, compiled by XLA"):
        spec = tf.TensorSpec((None, *input_shape[1:]), "float32")
        graph = tf.function(layer, input_signature=[spec], autograph=False, jit_compile=True)
        _assert_close(graph(x), expected)
        single = graph(x[:1])
        assert all(len(output) == 1 for output in _flat(single))
        _assert_close(single, layer(x[:1]))
    with _check("symbolic and eager call agree in shape and dtype"):
        inputs = keras.Input(input_shape[1:])
        outputs = layer(inputs)
        assert _specs(outputs) == [((None, *shape[1:]), dtype) for shape, dtype in _specs(expected)]
    for policy in ("mixed_float16", "mixed_bfloat16", "float64"):
        dtype = policy.removeprefix("mixed_")
        in_policy = cls(**{**kwargs, "dtype": policy})
        for training in (False, True):
            with _check(f"policy {policy}, training={training}"):
                output = in_policy(x, training=training)
                assert [spec[1] for spec in _specs(output)] == [dtype] * len(_specs(output))
                assert all(np.isfinite(np.asarray(v, "float64")).all() for v in _flat(output))
                own = {weight.dtype for weight in in_policy.weights} - {"int32"}
                assert own <= {"float64" if policy == "float64" else "float32"}
    with _check("save and load"):
        _check_saving(keras.Model(inputs, outputs), x)
    if train:
        with _check("one step of fit"):
            _check_training(layer, inputs, outputs, x)


def assert_refused(action: Callable, *fragments: str) -> None:
    """Assert that the action raises TypeError or ValueError with each fragment in its message."""
    with pytest.raises((TypeError, ValueError)) as refusal:
        action()
    for fragment in fragments:
        assert fragment in str(refusal.value)


def layer_gradients(
    layer: keras.layers.Layer, x: np.ndarray, loss: Callable, **call_kwargs: Any
) -> list[np.ndarray]:
    """Compute the gradients of loss(layer(x)) with respect to x and each trainable weight."""
    x = tf.convert_to_tensor(x)
    if not layer.built:
        layer.build(x.shape)
    variables = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(layer(x, **call_kwargs))
    return [gradient.numpy() for gradient in tape.gradient(value, [x, *variables])]


@contextmanager
def _check(name: str) -> Iterator[None]:
    """Name the failed check in the message of a failure."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"check_layer, {name}: {error}") from error


def _flat(output: Any) -> list:
    return keras.tree.flatten(output)


def _specs(output: Any) -> list[tuple[tuple, str]]:
    return [
        (tuple(tensor.shape), keras.backend.standardize_dtype(tensor.dtype))
        for tensor in _flat(output)
    ]


def _shapes(declared: Any, count: int) -> list[tuple]:
    """List the shapes in a nested structure with `count` shapes."""
    if count == 1 and all(size is None or isinstance(size, int) for size in declared):
        return [tuple(declared)]
    return [shape for entry in declared for shape in _shapes(entry, 1)]


def _assert_close(actual: Any, expected: Any) -> None:
    for a, e in zip(_flat(actual), _flat(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5)


class _MaskProbe(keras.layers.Layer):
    """Returns its mask as the output."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        assert mask is not None, "no mask reached the next layer"
        return keras.ops.cast(mask, "float32")


def _check_mask(layer: keras.layers.Layer, x: np.ndarray) -> None:
    """Check that the next layer gets the mask, if the output has the input's batch and time."""
    mask = np.arange(x.shape[1]) < np.arange(len(x))[:, None] % x.shape[1] + 1
    output = layer(keras.layers.Masking()(np.where(mask[..., None], x, 0.0)))
    if keras.tree.is_nested(output) or output.shape[:2] != x.shape[:2]:
        return
    np.testing.assert_array_equal(_MaskProbe()(output), mask)


def _check_saving(model: keras.Model, x: np.ndarray) -> None:
    for weight in model.weights:
        if "float" in weight.dtype:
            weight.assign(weight + 0.25)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
    assert len(loaded.weights) == len(model.weights)
    for restored, weight in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_array_equal(restored, weight, err_msg=weight.path)
    for restored, output in zip(_flat(loaded(x)), _flat(model(x)), strict=True):
        np.testing.assert_array_equal(restored, output)


def _check_training(layer: keras.layers.Layer, inputs: Any, outputs: Any, x: np.ndarray) -> None:
    each = [keras.layers.Flatten()(output) for output in _flat(outputs)]
    flat = keras.ops.concatenate(each, axis=-1)
    model = keras.Model(inputs, flat)
    targets = np.random.default_rng(2).normal(size=flat.shape[1:]) + np.zeros((len(x), 1))
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)  # XLA compiles slowly
    before = [(weight, weight.numpy()) for weight in layer.trainable_weights]
    model.fit(x, targets, batch_size=len(x), epochs=1, verbose=0)  # a warning is an error in pytest
    for weight, old in before:
        assert not np.array_equal(weight, old), f"{weight.path} did not change"
    for weight in model.weights:
        assert np.isfinite(np.asarray(weight, "float64")).all(), f"{weight.path} is not finite"
