"""Gradients of functions on the JAX and the PyTorch backend."""

import keras

if keras.backend.backend() == "jax":
    import jax

    def run(function, *arguments):
        """Compute a function; JAX compiles it, because it would compile every operation."""
        return jax.jit(function)(*arguments)

    def with_gradients(loss):
        """Return a function that maps sources to (loss, results) and the gradients of the loss."""
        return jax.value_and_grad(loss, has_aux=True)

else:
    import torch

    def run(function, *arguments):
        """Compute a function."""
        return function(*arguments)

    def with_gradients(loss):
        """Return a function that maps sources to (loss, results) and the gradients of the loss."""

        def compute(sources):
            flat = [_as_source(x) for x in keras.tree.flatten(sources)]
            sources = keras.tree.pack_sequence_as(sources, flat)
            results = loss(sources)
            gradients = torch.autograd.grad(results[0], flat, create_graph=True)
            return results, keras.tree.pack_sequence_as(sources, gradients)

        return compute

    def _as_source(x):
        x = torch.as_tensor(x)
        return x if x.requires_grad else x.requires_grad_()
