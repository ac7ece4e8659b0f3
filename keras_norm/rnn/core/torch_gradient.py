"""The custom gradient and the loop over time of the PyTorch backend."""

import contextlib
import operator
from collections.abc import Sequence
from typing import Any

import torch
from keras import tree

from keras_norm.rnn.core.backward import backward
from keras_norm.rnn.core.recurrence import Recurrence, Tree, map_tree
from keras_norm.rnn.core.sequence import Body, ForwardResults, forward
from keras_norm.rnn.core.torch_norms import fold_gamma, fuse_norms
from keras_norm.typing import Nest, Tensor, Tensors


def run(
    recurrence: Recurrence,
    xs: Tensors,
    states: Tensors,
    weights: Tree,
    constants: Tree,
    *,
    return_sequences: bool,
    training: bool,
) -> tuple[Tensors, Tensors, dict[str, Tensors]]:
    """Run a recurrence with a custom gradient; see `sequence.forward` for the arguments.

    The gradient is custom at inference too: `training` changes only the norms of the recurrence.
    Under `torch.compile` PyTorch derives the gradient of the loop.

    Returns:
        The outputs and the last states of `ForwardResults`, and the batch statistics.
    """
    fused = fuse_norms(recurrence, xs[0].shape[1], masked="unmasked" in constants)
    arguments = xs, states, weights, constants
    tensors = tree.flatten(arguments)
    has_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if has_gradient and not torch.compiler.is_compiling():
        structure, *results = CustomGradient.apply(
            fused, return_sequences, _structure(arguments), *tensors
        )
        outputs, last, statistics = tree.pack_sequence_as(structure, results)
    else:
        folded, constants = fold_gamma(fused, weights, constants)
        arguments = xs, states, weights, constants
        # Store residuals if a norm has batch statistics, because `forward` returns batch statistics
        # only together with residuals.
        stores = bool(folded.learning)
        outputs, last, statistics = _forward(folded, return_sequences, stores, arguments)[:3]
    return outputs, last, statistics


class CustomGradient(torch.autograd.Function):
    """A recurrence as a function of a flat list of tensors, with gradients by `backward.backward`.

    If the gradient is differentiated itself, PyTorch derives it from the forward loop.
    """

    @staticmethod
    def forward(
        ctx: Any,
        recurrence: Recurrence,
        return_sequences: bool,
        structure: Nest,
        *tensors: Tensor,
    ) -> tuple[Any, ...]:
        """Run the recurrence; return the nesting structure of its results, and their tensors."""
        arguments = tree.pack_sequence_as(structure, tensors)
        *results, residuals = _forward(recurrence, return_sequences, True, arguments)
        ctx.settings = recurrence, return_sequences
        ctx.structures = structure, _structure(residuals), _structure(results)
        ctx.save_for_backward(*tensors, *tree.flatten(residuals))
        ctx.mark_non_differentiable(*tree.flatten(results[2]))
        return ctx.structures[2], *tree.flatten(results)

    @staticmethod
    def backward(ctx: Any, _: None, *d_tensors: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `tensors`, and None for all other arguments of `forward`."""
        saved, n = ctx.saved_tensors, len(ctx.needs_input_grad) - 3
        structure, of_residuals, of_results = ctx.structures
        arguments = tree.pack_sequence_as(structure, saved[:n])
        d_outputs, d_states, _ = tree.pack_sequence_as(of_results, d_tensors)
        if torch.is_grad_enabled():
            gradients = _differentiable_gradients(
                ctx.settings, arguments, ctx.needs_input_grad[3:], [*d_outputs, *d_states]
            )
        else:
            residuals = tree.pack_sequence_as(of_residuals, saved[n:])
            _, _, weights, constants = arguments
            gradients = tree.flatten(
                backward(
                    ctx.settings[0],
                    LoopOverTime(),
                    residuals,
                    weights,
                    constants,
                    d_outputs,
                    d_states,
                )
            )
        return None, None, None, *gradients, *[None] * (n - len(gradients))


class LoopOverTime:
    """A Python loop over time; see `sequence.Loop`."""

    joins_gates = False

    def __call__(
        self,
        body: Body,
        carry: Nest,
        arrays: Tree,
        shared: Tree,
        *,
        initial: Tensors | None = None,
        reverse: bool = False,
    ) -> tuple[Nest, Tree]:
        """Run the loop over time; see `sequence.Loop.__call__`."""
        split = map_tree(torch.unbind, arrays)
        time = tree.flatten(arrays["gates"])[0].shape[0]
        written = []
        # PyTorch's inference mode records no operations, which takes a fifth less time. Its tensors
        # cannot be used for gradients, so the results are copied outside of inference mode.
        records = torch.is_grad_enabled() or torch.compiler.is_compiling()
        with contextlib.nullcontext() if records else torch.inference_mode():
            for t in range(time - 1, -1, -1) if reverse else range(time):
                carry, new = body(carry, map_tree(operator.itemgetter(t), split), shared)
                written.append(new)
        if reverse:
            written.reverse()
        of_states = [new.pop("states", []) for new in written]
        stacked = map_tree(lambda *rows: torch.stack(rows), *written)
        if initial is not None:
            rows_of_states = zip(initial, *of_states, strict=True)
            stacked["states"] = [torch.stack(rows) for rows in rows_of_states]
        return tree.map_structure(torch.clone, carry), stacked


def _forward(
    recurrence: Recurrence, return_sequences: bool, stores_residuals: bool, arguments: Nest
) -> ForwardResults:
    """Run `sequence.forward` in a Python loop."""
    return forward(
        recurrence,
        LoopOverTime(),
        *arguments,
        return_sequences=return_sequences,
        training=stores_residuals,
    )


def _differentiable_gradients(
    settings: tuple[Recurrence, bool],
    arguments: Nest,
    needed: Sequence[bool],
    d_results: Tensors,
) -> list[Tensor | None]:
    """Compute gradients that PyTorch can differentiate again; None if an argument needs none.

    The states of a reset can be the tensors of the initial states. A view of each argument has a
    gradient of its own.
    """
    arguments = tree.map_structure(lambda x: x.view_as(x), arguments)
    outputs, states, *_ = _forward(*settings, False, arguments)
    sources = [x for x, needs in zip(tree.flatten(arguments), needed, strict=True) if needs]
    found = iter(
        torch.autograd.grad(
            [*outputs, *states], sources, d_results, create_graph=True, allow_unused=True
        )
    )
    return [next(found) if needs else None for needs in needed]


def _structure(nest: Nest) -> Nest:
    """Return the structure of a nest: the same nest with None in place of each tensor."""
    return tree.map_structure(lambda _: None, nest)
