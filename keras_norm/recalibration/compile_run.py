"""Compile a function that runs a model in training mode, as `fit` does."""

from collections.abc import Callable

import keras

from keras_norm.typing import Nest, Tensors

# A function that runs a model on the inputs of a batch, and returns count, mean and variance of the
# inputs of each batch normalization.
Run = Callable[[Nest], list[Tensors]]


def compile_run(run: Run, variables: list[keras.Variable]) -> Run:
    """Compile a function that runs a model, without gradients.

    Args:
        run: the function. It may assign values to variables that are not trainable.
        variables: all variables that the function uses.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        compiled: Run = tf.function(run, autograph=False, reduce_retracing=True)
        return compiled
    if backend == "jax":
        return _compile_with_jax(run, variables)
    if backend == "torch":
        import torch

        without_gradients: Run = torch.no_grad()(run)
        return without_gradients
    return run


def _compile_with_jax(run: Run, variables: list[keras.Variable]) -> Run:
    import jax

    changing = [variable for variable in variables if not variable.trainable]
    constant = [variable for variable in variables if variable.trainable]

    @jax.jit
    def compute(values: Tensors, x: Nest) -> tuple[list[Tensors], Tensors]:
        pairs = list(zip([*changing, *constant], values, strict=True))
        with keras.StatelessScope(pairs) as scope:
            results = run(x)
        return results, [scope.get_current_value(variable) for variable in changing]

    def run_and_assign(x: Nest) -> list[Tensors]:
        values: Tensors = [variable.value for variable in (*changing, *constant)]
        results: list[Tensors]
        results, new = compute(values, x)
        for variable, value in zip(changing, new, strict=True):
            variable.assign(value)
        return results

    return run_and_assign
