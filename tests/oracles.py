"""The papers' equations in NumPy, as a reference for layers, cells and exported files.

The module does not import keras_norm. Arrays are float64. The functions are analytic, apart from
the masks, so they also take complex128 arrays: `gradient` differentiates them with the complex
step, exact up to rounding.

Papers:
    Ioffe and Szegedy 2015, arXiv 1502.03167 (batch normalization).
    Ba, Kiros and Hinton 2016, arXiv 1607.06450 (layer normalization).
    Cooijmans et al. 2016, arXiv 1603.09025 (recurrent batch normalization).
    Zhang and Sennrich 2019, arXiv 1910.07467 (RMS normalization).
    Wang et al. 2020 (variance-only layer normalization), arXiv 2006.12753.
    Kingma and Ba 2014, arXiv 1412.6980 (zero debiasing of a moving average).
    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000 (LSTM).
    Cho et al. 2014, arXiv 1406.1078 (GRU).
"""

from collections.abc import Callable, Sequence

import numpy as np

STEP = 1e-30


def gradient(f: Callable, x: np.ndarray) -> np.ndarray:
    """Compute the gradient of the scalar f at x with the complex step: Im f(x + i h e_k) / h.

    The formula subtracts nothing, so h can be tiny and the result is exact up to rounding (Squire
    and Trapp 1998). f must be analytic in x.
    """
    x = np.asarray(x, "float64")
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        shifted = x.astype("complex128")
        shifted[index] += 1j * STEP
        result[index] = np.imag(f(shifted)) / STEP
    return result


# Per-sample normalization -----------------------------------------------------------------------


def mean_of(rows: np.ndarray) -> np.ndarray:
    """Compute the mean of each row: (..., 1) for (..., size)."""
    return rows.sum(axis=-1, keepdims=True) / rows.shape[-1]


def variance_of(rows: np.ndarray, ddof: int = 0) -> np.ndarray:
    """Compute the variance of each row with the divisor size - ddof; unlike `np.var`, analytic."""
    deviation = rows - mean_of(rows)
    return (deviation * deviation).sum(axis=-1, keepdims=True) / (rows.shape[-1] - ddof)


def layer_norm(x, gamma=None, beta=None, axes=-1, epsilon=1e-3, placement="inside", ddof=0):
    """Layer normalization, Ba et al. eq. 3-4: gamma * (x - mean) / sqrt(var + epsilon) + beta.

    gamma and beta have the shape of the normalized axes in ascending order. With the placement
    "outside", epsilon is added to the square root. A ddof of 1 divides by N - 1.
    """

    def normalize(rows):
        variance = variance_of(rows, ddof)
        inside, outside = (epsilon, 0) if placement == "inside" else (0, epsilon)
        return (rows - mean_of(rows)) / (np.sqrt(variance + inside) + outside)

    return _affine(_apply_to_rows(x, axes, normalize), gamma, beta, axes)


def rms_norm(x, scale=None, axes=-1, epsilon=1e-6):
    """RMS normalization, Zhang and Sennrich eq. 4: scale * x / sqrt(mean(x^2) + epsilon)."""

    def normalize(rows):
        return rows / np.sqrt(mean_of(rows * rows) + epsilon)

    return _affine(_apply_to_rows(x, axes, normalize), scale, None, axes)


def variance_norm(x, gamma=None, beta=None, axes=-1, epsilon=1e-3):
    """Variance-only layer normalization, arXiv 2006.12753: x / sqrt(var(x) + epsilon)."""

    def normalize(rows):
        return rows / np.sqrt(variance_of(rows) + epsilon)

    return _affine(_apply_to_rows(x, axes, normalize), gamma, beta, axes)


def _sorted_axes(axes, rank):
    axes = [axes] if isinstance(axes, int) else list(axes)
    return sorted(axis % rank for axis in axes)


def _apply_to_rows(x, axes, function):
    """Apply a function to rows (..., size): the values along `axes` at one index of other axes."""
    x = np.asarray(x)
    axes = _sorted_axes(axes, x.ndim)
    last = list(range(x.ndim - len(axes), x.ndim))
    moved = np.moveaxis(x, axes, last)
    rows = moved.reshape(*moved.shape[: last[0]], -1)
    return np.moveaxis(function(rows).reshape(moved.shape), last, axes)


def _affine(y, gamma, beta, axes):
    axes = _sorted_axes(axes, y.ndim)
    shape = [size if axis in axes else 1 for axis, size in enumerate(y.shape)]
    if gamma is not None:
        y = y * np.reshape(gamma, shape)
    if beta is not None:
        y = y + np.reshape(beta, shape)
    return y


# Batch normalization ----------------------------------------------------------------------------


def batch_statistics(x, axis=-1, mask=None, ddof=0):
    """Compute mean and variance (features,): Ioffe and Szegedy, algorithm 1, lines 1 and 2.

    The mask has the dimensions of x, or its leading dimensions; it is True at unmasked positions.
    """
    columns, unmasked = (np.moveaxis(a, axis, 0) for a in (np.asarray(x), _full_mask(mask, x)))
    columns, unmasked = (a.reshape(len(columns), -1) for a in (columns, unmasked))
    count = unmasked.sum(axis=1)
    means = np.where(unmasked, columns, 0.0).sum(axis=1) / count
    deviations = np.where(unmasked, columns - means[:, None], 0.0)
    variances = (deviations * deviations).sum(axis=1) / (count - ddof)
    return means, variances


def batch_norm_train(x, gamma=None, beta=None, axis=-1, epsilon=1e-3, mask=None):
    """Normalize with the statistics of the unmasked positions: Ioffe and Szegedy, algorithm 1.

    Returns y, mean and biased variance.
    """
    mean, variance = batch_statistics(x, axis, mask)
    return batch_norm_inference(x, mean, variance, gamma, beta, axis, epsilon), mean, variance


def batch_norm_inference(x, mean, variance, gamma=None, beta=None, axis=-1, epsilon=1e-3):
    """Normalize with given statistics (features,): Ioffe and Szegedy, algorithm 2, line 11."""
    x = np.asarray(x)
    shape = [size if k == axis % x.ndim else 1 for k, size in enumerate(x.shape)]
    y = (x - np.reshape(mean, shape)) / np.sqrt(np.reshape(variance, shape) + epsilon)
    return _affine(y, gamma, beta, axis)


def ghost_batch_norm_train(x, virtual_batch_size, gamma=None, beta=None, epsilon=1e-3, mask=None):
    """Normalize each ghost batch with its own statistics (Hoffer et al. 2017, arXiv 1705.08741).

    The B rows are split into ceil(B / virtual_batch_size) ghost batches with equal numbers of rows;
    the last ghost batch may have fewer rows. A fully masked ghost batch does not count.

    Returns y, and the means of the ghost batches' means and variances.
    """
    x = np.asarray(x)
    ghosts = -(-len(x) // virtual_batch_size)
    rows = -(-len(x) // ghosts)
    mask = _full_mask(mask, x)
    outputs, means, variances = [], [], []
    for start in range(0, len(x), rows):
        ghost = slice(start, start + rows)
        if not mask[ghost].any():
            outputs.append(np.full_like(x[ghost], np.nan))
            continue
        y, mean, variance = batch_norm_train(x[ghost], gamma, beta, -1, epsilon, mask[ghost])
        outputs.append(y)
        means.append(mean)
        variances.append(variance)
    return np.concatenate(outputs), np.mean(means, axis=0), np.mean(variances, axis=0)


def _full_mask(mask, x):
    """Broadcast a mask to the shape of x; its dimensions are the leading dimensions of x."""
    x = np.asarray(x)
    if mask is None:
        return np.ones(x.shape, bool)
    mask = np.asarray(mask, bool)
    return np.broadcast_to(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x.shape)


# Moving statistics ------------------------------------------------------------------------------


def exponential_average(initial, values: Sequence, momentum: float):
    """Compute m <- momentum * m + (1 - momentum) * s for each value s: Ioffe, Szegedy, 3.1."""
    average = np.asarray(initial, "float64")
    for value in values:
        average = momentum * average + (1 - momentum) * np.asarray(value)
    return average


def debiased_average(values: Sequence, momentum: float):
    """Divide the average with initial value 0 by 1 - momentum^n: Kingma and Ba, section 3."""
    average = exponential_average(np.zeros_like(values[0]), values, momentum)
    return average / (1 - momentum ** len(values))


def cumulative_average(values: Sequence):
    """Compute the arithmetic mean of all values: Ioffe and Szegedy, algorithm 2, line 10."""
    return sum(np.asarray(value, "float64") for value in values) / len(values)


# Batch normalization per timestep ---------------------------------------------------------------


class TimestepBatchNorm:
    """Batch normalization with separate statistics for each timestep: Cooijmans et al., section 3.

    Row t of the moving statistics belongs to timestep t. Timesteps beyond max_timesteps share the
    last row.

    Training normalizes a timestep over its unmasked sequences, with the biased variance.
    `end_batch` updates each row once a batch, with the mean over the timesteps that share the row.
    A timestep has enough sequences if it has two or more, and `min_sequences` or as many as any
    timestep before it. The others update nothing. They are normalized with the statistics of the
    last timestep of the batch that had enough; without one, as in inference, with the moving
    statistics before the batch. With min_sequences=None two are enough, and all others use the
    moving statistics.

    Inference at timestep t uses the last updated row <= t, or else the first updated row. Before
    any update it uses row t.

    The other arguments are those of `TimestepBatchNormalization`.
    """

    def __init__(
        self,
        max_timesteps,
        features,
        gamma=None,
        beta=None,
        epsilon=1e-5,
        momentum=0.99,
        debias=True,
        unbiased_variance=False,
        min_sequences=8,
    ):
        self.gamma, self.beta, self.epsilon = gamma, beta, epsilon
        self.momentum, self.debias, self.ddof = momentum, debias, int(unbiased_variance)
        # For each row the (mean, variance) of every update, and of the timesteps of this batch.
        self.history = [[] for _ in range(max_timesteps)]
        self.pending = [[] for _ in range(max_timesteps)]
        self.features, self.min_sequences = features, min_sequences
        self.most, self.latest = 0, None  # of the timesteps of this batch

    def step(self, x, t, mask=None, training=False):
        """Normalize x (batch, features) at timestep t; the mask is bool (batch,), or None."""
        mask = np.ones(len(x), bool) if mask is None else np.asarray(mask, bool)
        row = min(t, len(self.history) - 1)
        if t == 0:
            self.most, self.latest = 0, None
        self.most = max(self.most, mask.sum())
        if training and mask.sum() >= max(2, min(self.min_sequences or 2, self.most)):
            self.pending[row].append(batch_statistics(x, -1, mask, self.ddof))
            self.latest = batch_statistics(x, -1, mask)
            return batch_norm_train(x, self.gamma, self.beta, -1, self.epsilon, mask)[0]
        mean, variance = self.row(self._used_row(row))
        if training and self.latest and self.min_sequences:
            mean, variance = self.latest
        return batch_norm_inference(x, mean, variance, self.gamma, self.beta, -1, self.epsilon)

    def end_batch(self):
        """Update each row that has statistics of the batch."""
        for history, pending in zip(self.history, self.pending, strict=True):
            if pending:
                means, variances = zip(*pending, strict=True)
                history.append((np.mean(means, axis=0), np.mean(variances, axis=0)))
                pending.clear()

    def row(self, row):
        """Return the moving mean and variance of a row; 0 and 1 if the row has no update."""
        if not self.history[row]:
            return np.zeros(self.features), np.ones(self.features)
        means, variances = zip(*self.history[row], strict=True)
        return self._average(0.0, means), self._average(1.0, variances)

    @property
    def moving_mean(self):
        """Return the moving mean (max_timesteps, features)."""
        return np.stack([self.row(row)[0] for row in range(len(self.history))])

    @property
    def moving_variance(self):
        """Return the moving variance (max_timesteps, features)."""
        return np.stack([self.row(row)[1] for row in range(len(self.history))])

    @property
    def update_count(self):
        """Return the number of updates of each row (max_timesteps,)."""
        return np.array([len(history) for history in self.history])

    def _used_row(self, row):
        updated = [k for k, history in enumerate(self.history) if history]
        at_or_before = [k for k in updated if k <= row]
        if at_or_before:
            return at_or_before[-1]
        return updated[0] if updated else row

    def _average(self, initial, values):
        if self.momentum is None:
            return cumulative_average(values)
        if self.debias:
            return debiased_average(values, self.momentum)
        return exponential_average(np.full(self.features, initial), values, self.momentum)


def timestep_batch_norm(
    norm: TimestepBatchNorm, x, mask=None, training=False, count_leading_padding=False
):
    """Run a TimestepBatchNorm over x (batch, time, features) with mask (batch, time)."""
    mask = np.ones(x.shape[:2], bool) if mask is None else np.asarray(mask, bool)
    order = order_of_timesteps(mask, count_leading_padding)
    x, mask = (np.take_along_axis(a, order[..., None], 1) for a in (x, mask[..., None]))
    steps = [norm.step(x[:, t], t, mask[:, t, 0], training) for t in range(x.shape[1])]
    if training:
        norm.end_batch()
    return in_order(np.stack(steps, axis=1), order)


def order_of_timesteps(mask, count_leading_padding):
    """Return the positions of the timesteps 0, 1, ... of each sequence, (batch, time).

    Timestep 0 is the first unmasked timestep of the sequence; the leading padding comes last. With
    `count_leading_padding` the positions are 0, 1, ....
    """
    skipped = np.cumsum(mask, axis=1) == 0
    return np.argsort(skipped & (not count_leading_padding), axis=1, kind="stable")


def in_order(y, order):
    """Put the timesteps of y (batch, time, width) at the positions in `order`."""
    placed = np.empty_like(y)
    np.put_along_axis(placed, order[..., None], y, axis=1)
    return placed


# Recurrent steps --------------------------------------------------------------------------------

# The norms of an LSTM in the joint form, by gate, and the norms of all cells.
SLOTS = ("input_norm", "forget_norm", "cell_norm", "output_norm", "update_norm", "reset_norm")
SLOTS += ("candidate_norm", "joint_norm", "kernel_norm", "recurrent_norm", "state_norm")
SLOTS += ("kernel_candidate_norm", "recurrent_candidate_norm", "projection_norm")
GATES = {4: SLOTS[:4], 3: SLOTS[4:7], 1: SLOTS[6:7]}


def sigmoid(z):
    """Compute 1 / (1 + exp(-z))."""
    return 1 / (1 + np.exp(-z))


def _identity(z):
    return z


def joint_norms(z, gates, norm_form, norm):
    """Apply the norm of each gate to its columns of z ("joint"), or joint_norm to all of them."""
    if norm_form == "joint_all":
        return norm["joint_norm"](z)
    columns = zip(GATES[gates], np.split(z, gates, axis=-1), strict=True)
    return np.concatenate([norm[slot](column) for slot, column in columns], axis=-1)


def lstm_step(
    x,
    states,
    kernel,
    recurrent,
    bias=None,
    norm_form="separate",
    normalize_carry=False,
    peepholes=(0.0, 0.0, 0.0),
    cell_clip=np.inf,
    candidate=1.0,
    projection=None,
    **norms,
):
    """Run one LSTM step; with norms, that of Ba et al. eq. 20-22 or Cooijmans et al. eq. 6-8.

    z = kernel_norm(x W) + recurrent_norm(h U) + b, in Keras' gate order i, f, g, o;
    c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(state_norm(c')).

    `norms` are functions of an array, by slot. With `normalize_carry`, state_norm(c') is carried in
    place of c', as in TensorFlow Addons. The joint forms have norms of x W + h U without the bias,
    and no norm of c'. Returns h', [h', c'].

    `peepholes` are p_i, p_f and p_o of Gers et al. 2002: p_i c and p_f c are added to i and f, and
    p_o c' to o. c' is between -`cell_clip` and `cell_clip`. The candidate tanh(g) is multiplied by
    `candidate` (Semeniuta et al. 2016). With `projection`, a matrix P, h' is projection_norm(h' P)
    (Sak et al. 2014).
    """
    (h, c), norm = states, {**dict.fromkeys(SLOTS, _identity), **norms}
    bias = np.zeros(np.shape(kernel)[1]) if bias is None else bias
    if norm_form != "separate":
        z = joint_norms(x @ kernel + h @ recurrent, 4, norm_form, norm)
    else:
        z = norm["kernel_norm"](x @ kernel) + norm["recurrent_norm"](h @ recurrent)
    i, f, g, o = np.split(z + bias, 4, axis=-1)
    p_i, p_f, p_o = peepholes
    c = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * np.tanh(g) * candidate
    c = np.where(np.abs(np.real(c)) < cell_clip, c, np.sign(np.real(c)) * cell_clip)
    normalized = norm["state_norm"](c)
    h = sigmoid(o + p_o * c) * np.tanh(normalized)
    h = h if projection is None else norm["projection_norm"](h @ projection)
    return h, [h, normalized if normalize_carry else c]


def gru_step(
    x,
    states,
    kernel,
    recurrent_kernel,
    bias=None,
    reset_after=True,
    norm_form="separate",
    candidate=1.0,
    **norms,
):
    """Run one GRU step, Cho et al. eq. 5-8, in Keras' order: h' = z h + (1 - z) candidate.

    Without norms, the candidate is that of Keras. With `reset_after` it is
    tanh(W x + b_0 + r (U h + b_1)), with a bias (2, 3 units). Without `reset_after` it is
    tanh(W x + U (r h) + b), with a bias (3 units,).

    With a norm, the equations are those of Ba et al., supplement, for any `reset_after`. The four
    norms are over (z, r) and over the candidate, for x and for h. The candidate is
    tanh(LN(W x) + r LN(U h) + b), with a bias (3 units,).

    In the joint forms, z, r, n = norms of x W + h U + b, and the candidate is tanh(s(r) n), as in
    Hafner et al. 2021 (DreamerV2). The candidate is multiplied by `candidate`, as in `lstm_step`.
    Returns h', [h'].
    """
    (h,), norm = states, {**dict.fromkeys(SLOTS, _identity), **norms}
    units = h.shape[-1]
    if norm_form != "separate":
        gates = joint_norms(x @ kernel + h @ recurrent_kernel, 3, norm_form, norm)
        z, r, n = np.split(gates + (0 if bias is None else bias), 3, axis=-1)
        h = sigmoid(z) * h + (1 - sigmoid(z)) * np.tanh(sigmoid(r) * n) * candidate
        return h, [h]
    x_bias, h_bias = np.zeros((2, 3 * units))
    if bias is not None:
        x_bias, h_bias = bias if np.ndim(bias) == 2 else (bias, h_bias)

    wx, uh = x @ kernel, h @ recurrent_kernel
    gates = norm["kernel_norm"](wx[:, : 2 * units]) + norm["recurrent_norm"](uh[:, : 2 * units])
    z, r = np.split(sigmoid(gates + (x_bias + h_bias)[: 2 * units]), 2, axis=-1)
    x_part = norm["kernel_candidate_norm"](wx[:, 2 * units :]) + x_bias[2 * units :]
    if norms or reset_after:
        h_part = r * (norm["recurrent_candidate_norm"](uh[:, 2 * units :]) + h_bias[2 * units :])
    else:
        h_part = (r * h) @ recurrent_kernel[:, 2 * units :]
    h = z * h + (1 - z) * np.tanh(x_part + h_part) * candidate
    return h, [h]


def simple_rnn_step(x, states, kernel, recurrent_kernel, bias=None, norm_form="separate", **norms):
    """Run one step of a simple RNN, Ba et al. eq. 4: h' = tanh(norm(x W) + norm(h U) + b).

    The joint forms are h' = tanh(norm(x W + h U) + b). The shapes are those of `lstm_step`, with
    `units` in place of `4 units`. Returns h', [h'].
    """
    (h,), norm = states, {**dict.fromkeys(SLOTS, _identity), **norms}
    if norm_form != "separate":
        z = joint_norms(x @ kernel + h @ recurrent_kernel, 1, norm_form, norm)
    else:
        z = norm["kernel_norm"](x @ kernel) + norm["recurrent_norm"](h @ recurrent_kernel)
    h = np.tanh(z if bias is None else z + bias)
    return h, [h]


def run_sequence(
    step: Callable,
    x,
    states,
    mask=None,
    go_backwards=False,
    zero_output_for_mask=False,
    count_leading_padding=True,
):
    """Run a step over time with the mask semantics of `keras.layers.RNN`.

    A masked timestep keeps the states and repeats the previous output; the output before the first
    timestep is zeros.

    `step` is a function (x_t, states, t, mask_t) -> (output, new states), where t counts the
    timesteps in the order of processing, from the first unmasked timestep of each sequence if
    `count_leading_padding` is False. x is (batch, time, inputs) and the mask (batch, time).
    With `go_backwards`, the outputs have the order of processing too. Returns the outputs
    (batch, time, width) and the last states.
    """
    x = np.asarray(x)
    mask = np.ones(x.shape[:2], bool) if mask is None else np.asarray(mask, bool)
    if go_backwards:
        x, mask = x[:, ::-1], mask[:, ::-1]
    leading, order = np.cumsum(mask, axis=1) == 0, order_of_timesteps(mask, count_leading_padding)
    x, mask = (np.take_along_axis(a, order[..., None], 1) for a in (x, mask[..., None]))
    previous, outputs = None, []
    for t in range(x.shape[1]):
        output, new_states = step(x[:, t], states, t, mask[:, t, 0])
        previous = np.zeros_like(output) if previous is None else previous
        unmasked = mask[:, t]
        states = [np.where(unmasked, new, old) for new, old in zip(new_states, states, strict=True)]
        previous = np.where(unmasked, output, previous)
        outputs.append(np.where(unmasked, previous, 0) if zero_output_for_mask else previous)
    # Before the first unmasked timestep there is no previous output.
    return np.where(leading[..., None], 0, in_order(np.stack(outputs, axis=1), order)), states
