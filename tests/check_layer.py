"""The contract that every layer of the package keeps, in one function."""

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
    """Check all that must hold for any layer; a failure names the check that failed.

    One layer serves all checks but those of policies: each call in another form is a trace.

    Args:
        cls: The layer class.
        kwargs: Its arguments; it must be deterministic in inference and keep no state there.
        input_shape: With the batch, which is 4 or more.
        expected_trainable: Number of trainable weights.
        expected_non_trainable: Number of non-trainable weights.
        train: Whether to train one step; every trainable weight must change.
    """
    x = np.random.default_rng(0).normal(size=input_shape).astype("float32")
    keras.utils.set_random_seed(1)
    with _part("registered under the package's name"):
        assert keras.saving.get_registered_name(cls) == f"{PACKAGE}>{cls.__name__}"
    with _part("unknown argument refused by name"):
        assert_refused(lambda: cls(**kwargs, no_such_argument=1), "no_such_argument")
    with _part("config round trip"):
        config = cls(**kwargs).get_config()
        assert cls.from_config(copy.deepcopy(config)).get_config() == config
    with _part("JSON round trip of the config"):
        assert cls.from_config(json.loads(json.dumps(config))).get_config() == config
    with _part("constructor attributes unchanged by build and call"):
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
    with _part("trainable weight count"):
        assert len(layer.trainable_weights) == expected_trainable
    with _part("non-trainable weight count"):
        # seed generators' states are variables, and no weights
        assert len(layer.non_trainable_weights) == expected_non_trainable
    with _part("masking supported"):
        assert cls(**kwargs).supports_masking
    with _part("mask passed through"):
        _check_mask(layer, x)
    with _part("compute_output_shape agrees with the call"):
        declared = cls(**kwargs).compute_output_shape(input_shape)
        shapes = [spec[0] for spec in _specs(expected)]
        assert _shapes(declared, len(shapes)) == shapes
    with _part("dynamic batch"):
        free = tf.TensorSpec((None, *input_shape[1:]), "float32")
        graph = tf.function(layer, input_signature=[free], autograph=False)
        _assert_close(graph(x), expected)
        one = graph(x[:1])
        assert all(len(output) == 1 for output in _flat(one))
        _assert_close(one, layer(x[:1]))
    with _part("symbolic and eager call agree in shape and dtype"):
        inputs = keras.Input(input_shape[1:])
        outputs = layer(inputs)
        assert _specs(outputs) == [((None, *shape[1:]), dtype) for shape, dtype in _specs(expected)]
    with _part("same answer under XLA as in eager mode"):
        compiled = tf.function(layer, jit_compile=True, autograph=False)
        _assert_close(compiled(x), expected)
    for policy, dtype in [
        ("mixed_float16", "float16"),
        ("mixed_bfloat16", "bfloat16"),
        ("float64", "float64"),
    ]:
        in_policy = cls(**{**kwargs, "dtype": policy})
        for training in (False, True):
            with _part(f"policy {policy}, training={training}"):
                output = in_policy(x, training=training)
                assert [spec[1] for spec in _specs(output)] == [dtype] * len(_specs(output))
                assert all(np.isfinite(np.asarray(v, "float64")).all() for v in _flat(output))
    with _part("save and load"):
        _check_saving(keras.Model(inputs, outputs), x)
    if train:
        with _part("one step of fit"):
            _check_training(layer, inputs, outputs, x)


def assert_refused(action: Callable, *fragments: str) -> None:
    """The action raises TypeError or ValueError with a message that holds each fragment."""
    with pytest.raises((TypeError, ValueError)) as refusal:
        action()
    for fragment in fragments:
        assert fragment in str(refusal.value)


def layer_gradients(
    layer: keras.layers.Layer, x: np.ndarray, loss: Callable, **call_kwargs: Any
) -> list[np.ndarray]:
    """Gradients of loss(layer(x)) with respect to x and then each trainable weight."""
    x = tf.convert_to_tensor(x)
    if not layer.built:
        layer.build(x.shape)
    variables = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(layer(x, **call_kwargs))
    return [gradient.numpy() for gradient in tape.gradient(value, [x, *variables])]


@contextmanager
def _part(name: str) -> Iterator[None]:
    """Say which part of the contract a failure belongs to."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"check_layer, {name}: {error}") from error
    except pytest.fail.Exception as error:
        raise AssertionError(f"check_layer, {name}: {error}") from error


def _flat(output: Any) -> list:
    return keras.tree.flatten(output)


def _specs(output: Any) -> list[tuple[tuple, str]]:
    return [
        (tuple(tensor.shape), keras.backend.standardize_dtype(tensor.dtype))
        for tensor in _flat(output)
    ]


def _shapes(declared: Any, count: int) -> list[tuple]:
    """The shapes in a nest of shapes, of which there should be `count`."""
    if count == 1 and all(size is None or isinstance(size, int) for size in declared):
        return [tuple(declared)]
    return [shape for entry in declared for shape in _shapes(entry, 1)]


def _assert_close(actual: Any, expected: Any) -> None:
    for a, e in zip(_flat(actual), _flat(expected), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5)


class _MaskProbe(keras.layers.Layer):
    """Returns the mask that reaches it."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        assert mask is not None, "no mask reached the next layer"
        return keras.ops.cast(mask, "float32")


def _check_mask(layer: keras.layers.Layer, x: np.ndarray) -> None:
    """Where the output has the input's batch and time, the mask goes on to the next layer."""
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
    model.compile(keras.optimizers.Adam(0.01), "mse")
    before = [(weight, weight.numpy()) for weight in layer.trainable_weights]
    model.fit(x, targets, batch_size=len(x), epochs=1, verbose=0)  # pytest makes warnings errors
    for weight, old in before:
        assert not np.array_equal(weight, old), f"{weight.path} did not change"
    for weight in model.weights:
        assert np.isfinite(np.asarray(weight, "float64")).all(), f"{weight.path} is not finite"
