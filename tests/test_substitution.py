"""Methods are substituted inside a block, in a single thread."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.substitution import substituted_functions

X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")


def zeros(sequences, initial_state, mask, training=False):
    state = np.zeros((2, 4), "float32")
    return state, state[:, None], [state]


@pytest.fixture(scope="module")
def layer():
    layer = keras_norm.LayerNormGRU(4)
    layer.build(X.shape)
    return layer


def test_the_block_calls_the_substitute_and_later_code_calls_the_method(layer):
    before = layer(X)
    with substituted_functions({layer: {"inner_loop": zeros}}):
        assert (np.asarray(layer(X)) == 0).all()
    np.testing.assert_array_equal(layer(X), before)


def test_an_exception_restores_the_method(layer):
    attributes = dict(vars(layer))
    with pytest.raises(RuntimeError), substituted_functions({layer: {"inner_loop": zeros}}):
        raise RuntimeError
    assert vars(layer) == attributes


def test_an_inner_block_restores_the_substitute_of_the_outer_block(layer):
    def ones(*args, **kwargs):
        state = np.ones((2, 4), "float32")
        return state, state[:, None], [state]

    with substituted_functions({layer: {"inner_loop": zeros}}):
        with substituted_functions({layer: {"inner_loop": ones}}):
            assert (np.asarray(layer(X)) == 1).all()
        assert (np.asarray(layer(X)) == 0).all()


def test_other_threads_call_the_method(layer):
    before = layer(X)
    with substituted_functions({layer: {"inner_loop": zeros}}), ThreadPoolExecutor(1) as pool:
        np.testing.assert_array_equal(pool.submit(layer, X).result(), before)


def test_a_second_thread_waits_for_the_first(layer):
    def run():
        with substituted_functions({layer: {"inner_loop": zeros}}):
            return np.asarray(layer(X))

    with ThreadPoolExecutor(1) as pool:
        with substituted_functions({layer: {"inner_loop": zeros}}):
            waiting = pool.submit(run)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.1)
        assert (waiting.result() == 0).all()


def test_a_substitute_has_the_signature_of_the_method():
    dense = keras.layers.Dense(2)
    signature = inspect.signature(dense.call)
    with substituted_functions({dense: {"call": lambda x: x}}):
        assert inspect.signature(dense.call) == signature
