"""The custom gradient of the TensorFlow backend."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_norm.keras_internals import computes_on_cpu, xla_compiles
from keras_norm.rnn.core.backward import backward
from keras_norm.rnn.core.recurrence import Recurrence, Tree
from keras_norm.rnn.core.sequence import ForwardResults, forward
from keras_norm.rnn.core.tensorflow_programs import CompiledLoop, TracedLoop, traced
from keras_norm.typing import Nest, Tensor, Tensors

# A batch is split into two parts, which run in parallel, each in an XLA program. A single program
# leaves one of two CPU cores idle most of the time. Four parts take as long as two.
PARTS = 2

# XLA compiles a program for each length and batch size. Dynamic sizes are rounded up to the sizes
# below: a hundred lengths need a dozen programs, and a batch of 20 uses the program for 32 rows.
LENGTHS = sorted(n * 2**k for n in (2, 3) for k in range(28))
ROWS = [1, 2, 4, 16, *(16 * n for n in LENGTHS[:-8])]


class Inputs(NamedTuple):
    """The differentiable inputs of a recurrence; `sequence.forward` documents them."""

    xs: Tensors
    states: Tensors
    weights: Tree


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

    Returns:
        The outputs and the last states of `ForwardResults`, and the batch statistics.
    """
    batch_size, time = xs[0].shape[1], tf.shape(xs[0])[0]
    # Split the batch only if no norm needs statistics of the whole batch, and only outside XLA:
    # within XLA, two parts would not run in parallel.
    whole = recurrence.learning or batch_size == 1 or xla_compiles() or not computes_on_cpu()
    parts = 1 if whole else PARTS
    batch = tf.shape(xs[0])[1]
    rows, length = -(-batch // parts), time
    if _is_dynamic(batch_size):
        # Each size needs a compiled program. So round the size of half a batch up to a size in
        # ROWS. If the batch is not split, double the rounded size. A batch that is not split then
        # needs no more programs than a split batch.
        rows = _round_up(-(-batch // PARTS), ROWS) * (PARTS // parts)
    if _is_dynamic(xs[0].shape[0]):
        length = _round_up(time, LENGTHS)
    if recurrence.learning and "unmasked" not in constants and _is_dynamic(batch_size):
        # The batch may be padded with sequences of zeros: exclude them from the batch statistics.
        constants = {**constants, "unmasked": tf.ones([time, batch, 1], "bool")}

    def split_batch(x: Tensor) -> Tensors:
        of_parts: Tensors = tf.split(_pad(x, parts * rows - batch), parts)
        return of_parts

    def split_sequence(x: Tensor) -> Tensors:
        padded = _pad(x, length - time, parts * rows - batch)
        of_parts: Tensors = tf.split(padded, parts, axis=1)
        return of_parts

    # A dropout mask is derived from a state: without `stop_gradient`, a tape that watches the state
    # would watch the mask too.
    constants = tf.nest.map_structure(tf.stop_gradient, constants)

    def split_moving(x: Tensor) -> Tensors:
        return split_sequence(x) if "resets" in constants else [_pad(x, length - time)] * parts

    splits = {"moving": split_moving, "dropout": split_batch}
    split_constants = {
        name: _split(tree, splits.get(name, split_sequence), parts)
        for name, tree in constants.items()
    }
    of_xs = _split(xs, split_sequence, parts)
    of_states = _split(states, split_batch, parts)
    results = []
    for k in range(parts):
        # With a batch of 1, the second half of the batch has only padding. Run one timestep of this
        # half, because TensorFlow's vectorized loops cannot stack the results of 0 timesteps.
        steps = tf.where(k * rows < batch, time, tf.minimum(time, 1))
        inputs = Inputs(of_xs[k], of_states[k], weights)
        # In training, always return the output sequence, which the backward pass needs in any case.
        # Then layers with and without `return_sequences` share one compiled function.
        settings = recurrence, training or return_sequences, training
        of_part = {name: split[k] for name, split in split_constants.items()}
        results.append(_run_part(*settings, steps, inputs, of_part))
    outputs, of_last, statistics = zip(*results, strict=True)
    last = [tf.concat(of_parts, axis=0)[:batch] for of_parts in zip(*of_last, strict=True)]
    last = [tf.ensure_shape(state, [batch_size, state.shape[-1]]) for state in last]
    batch_statistics = tf.nest.map_structure(lambda s: tf.stop_gradient(s[:time]), statistics[0])
    if not return_sequences:
        return [], last, batch_statistics
    joined = tf.concat([of_part[0] for of_part in outputs], axis=1)[:time, :batch]
    joined = tf.ensure_shape(joined, [*xs[0].shape[:2], joined.shape[-1]])
    return [joined], last, batch_statistics


def _run_part(
    recurrence: Recurrence,
    return_sequences: bool,
    training: bool,
    steps: Tensor,
    inputs: Inputs,
    constants: Tree,
) -> tuple[Tensors, Tensors, dict[str, Tensors]]:
    """Run the recurrence on one part of the batch, such as its first half."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def differentiable(inputs: Inputs) -> Nest:
        # Without `stop_gradient`, the caller's tape would also differentiate `program`.
        still = tf.nest.map_structure(tf.stop_gradient, inputs)
        program = traced(_forward, CompiledLoop, recurrence, return_sequences, training)
        arguments = still.weights, steps, still.xs, still.states, constants
        outputs, states, statistics, residuals = program(*arguments)

        def gradient(*d_results: Tensor) -> Inputs:
            kept = residuals
            if not training:
                again = traced(_forward, CompiledLoop, recurrence, return_sequences, True)
                *_, kept = again(*arguments)
            # If a model reads the outputs with `tf.gather`, their gradient is a tf.IndexedSlices.
            # Convert it to a dense tensor.
            dense = [tf.convert_to_tensor(d) for d in d_results[: len(outputs) + len(states)]]
            return _gradient(recurrence, return_sequences, steps, inputs, constants, kept, dense)

        return (outputs, states, statistics), gradient

    results: tuple[Tensors, Tensors, dict[str, Tensors]] = differentiable(inputs)
    return results


def _forward(
    loop: type[CompiledLoop],
    recurrence: Recurrence,
    return_sequences: bool,
    training: bool,
    weights: Tree,
    steps: Tensor,
    xs: Tensors,
    states: Tensors,
    constants: Tree,
) -> ForwardResults:
    """Run `sequence.forward` in a loop of `steps` timesteps."""
    return forward(
        recurrence,
        loop(steps),
        xs,
        states,
        weights,
        constants,
        return_sequences=return_sequences,
        training=training,
    )


def _backward(
    recurrence: Recurrence,
    weights: Tree,
    steps: Tensor,
    residuals: Tree,
    constants: Tree,
    d_outputs: list[Tensor],
    d_states: Tensors,
) -> Inputs:
    loop = CompiledLoop(steps)
    return Inputs(*backward(recurrence, loop, residuals, weights, constants, d_outputs, d_states))


def _gradient(
    recurrence: Recurrence,
    return_sequences: bool,
    steps: Tensor,
    inputs: Inputs,
    constants: Tree,
    residuals: Tree,
    d_results: list[Tensor],
) -> Inputs:
    """Compute the gradients of `inputs`; for second derivatives, run an uncompiled loop."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def first(*both: Nest) -> Nest:
        inputs, d_results = both
        still, d = tf.nest.map_structure(tf.stop_gradient, both)
        d_outputs, d_states = d[:return_sequences], d[return_sequences:]
        program = traced(_backward, recurrence)
        gradients = program(still.weights, steps, residuals, constants, d_outputs, d_states)

        def second(*dd: Tensor) -> Nest:
            _require_second_gradient(dd[0])
            with tf.GradientTape() as outer:
                outer.watch(both)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    settings = TracedLoop, recurrence, return_sequences, True
                    arguments = inputs.weights, steps, inputs.xs, inputs.states, constants
                    outputs, states, *_ = _forward(*settings, *arguments)
                    targets = [*outputs, *states]
                gradients = inner.gradient(targets, inputs, d_results, "zero")
            return outer.gradient(gradients, both, dd, "zero")

        return gradients, second

    gradients: Inputs = first(inputs, d_results)
    return gradients


def _require_second_gradient(x: Tensor) -> None:
    """Raise an error for derivatives that TensorFlow cannot compute through the custom gradient.

    Without this check, TensorFlow would return zeros or raise an unclear error.

    Raises:
        NotImplementedError: a second gradient within XLA, or a forward-mode derivative.
    """
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.identity(x)
    refused = "jit_compile=True" if xla_compiles() else ""
    if tape.gradient(y, x) is None:
        refused = "tf.autodiff.ForwardAccumulator"
    if refused:
        raise NotImplementedError(
            "TensorFlow cannot differentiate the custom gradient of a recurrent layer in training "
            f"with {refused}. Create the layer with compiled=False."
        )


def _is_dynamic(size: int | None) -> bool:
    """Return whether a dimension is dynamic. In eager calls every dimension counts as dynamic."""
    return size is None or tf.executing_eagerly()


def _split(tree: Nest, split: Callable[[Tensor], Tensors], parts: int) -> list[Any]:
    """Split every tensor of a tree into `parts` tensors, and return one tree for each part."""
    of_tensors = list(map(split, tf.nest.flatten(tree)))
    return [tf.nest.pack_sequence_as(tree, [of[k] for of in of_tensors]) for k in range(parts)]


def _round_up(n: Tensor, sizes: list[int]) -> Tensor:
    """Return the smallest number in `sizes` that is at least n."""
    return tf.reduce_min(tf.where(tf.constant(sizes) < n, sizes[-1], sizes))


def _pad(x: Tensor, *missing: int | Tensor) -> Tensor:
    """Append `missing[k]` zeros along axis k of x."""
    return tf.pad(x, [[0, n] for n in missing] + [[0, 0]] * (len(x.shape) - len(missing)))
