"""The papers' equations in plain NumPy: what every layer, cell and exported file is tested against.

Nothing here imports keras_norm, and nothing is fast. Arrays are float64, and every function but the
masks' is analytic, so that it also takes complex128: `gradient` differentiates any of them by the
complex step, exactly to rounding.

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
    """The gradient of the scalar f at x, by the complex step: Im f(x + i h e_k) / h.

    No difference is taken, so that h can be tiny and the result is exact to rounding (Squire and
    Trapp 1998). f must be analytic in x.
    """
    x = np.asarray(x, "float64")
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        moved = x.astype("complex128")
        moved[index] += 1j * STEP
        result[index] = np.imag(f(moved)) / STEP
    return result


# Normalisation of rows --------------------------------------------------------------------------


def mean_of(values: np.ndarray) -> np.ndarray:
    """The mean of all values."""
    return values.sum() / values.size


def variance_of(values: np.ndarray, ddof: int = 0) -> np.ndarray:
    """The mean of squared deviations over size - ddof; analytic, as `np.var` is not."""
    deviation = values - mean_of(values)
    return (deviation * deviation).sum() / (values.size - ddof)


def layer_norm(x, gamma=None, beta=None, axes=-1, epsilon=1e-3, placement="inside", ddof=0):
    """Layer normalization, Ba et al. eq. 3-4: gamma * (x - mean) / sqrt(var + epsilon) + beta.

    Args:
        x: Any rank.
        gamma: One gain for each position of the normalised axes, those in ascending order.
        beta: One offset for each, likewise.
        axes: An int, or several.
        epsilon: Added to the variance ("inside") or to its root ("outside").
        placement: "inside" or "outside" the square root.
        ddof: 1 divides the squared deviations by N - 1.
    """

    def normalise(row):
        variance = variance_of(row, ddof)
        inside, outside = (epsilon, 0) if placement == "inside" else (0, epsilon)
        return (row - mean_of(row)) / (np.sqrt(variance + inside) + outside)

    return _affine(_each_row(x, axes, normalise), gamma, beta, axes)


def rms_norm(x, scale=None, axes=-1, epsilon=1e-6):
    """RMS normalization, Zhang and Sennrich eq. 4: scale * x / sqrt(mean(x^2) + epsilon)."""

    def normalise(row):
        return row / np.sqrt(mean_of(row * row) + epsilon)

    return _affine(_each_row(x, axes, normalise), scale, None, axes)


def variance_norm(x, gamma=None, beta=None, axes=-1, epsilon=1e-3):
    """Variance-only layer normalization, arXiv 2006.12753: x / sqrt(var(x) + epsilon)."""

    def normalise(row):
        return row / np.sqrt(variance_of(row) + epsilon)

    return _affine(_each_row(x, axes, normalise), gamma, beta, axes)


def _sorted_axes(axes, rank):
    axes = [axes] if isinstance(axes, int) else list(axes)
    return sorted(axis % rank for axis in axes)


def _each_row(x, axes, function):
    """Apply function to each set of values that share their place on all other axes."""
    x = np.asarray(x)
    axes = _sorted_axes(axes, x.ndim)
    last = list(range(x.ndim - len(axes), x.ndim))
    moved = np.moveaxis(x, axes, last)
    rows = moved.reshape(-1, int(np.prod([x.shape[axis] for axis in axes])))
    results = np.stack([function(row) for row in rows]).reshape(moved.shape)
    return np.moveaxis(results, last, axes)


def _affine(y, gamma, beta, axes):
    axes = _sorted_axes(axes, y.ndim)
    shape = [size if axis in axes else 1 for axis, size in enumerate(y.shape)]
    if gamma is not None:
        y = y * np.reshape(gamma, shape)
    if beta is not None:
        y = y + np.reshape(beta, shape)
    return y


# Batch normalisation ----------------------------------------------------------------------------


def batch_statistics(x, axis=-1, mask=None, ddof=0):
    """Mean and variance of each feature, Ioffe and Szegedy, algorithm 1, lines 1 and 2.

    Args:
        x: Any rank; features on `axis`.
        axis: The features' axis.
        mask: bool, broadcastable to x, or its leading dimensions; True counts. At least one does.
        ddof: 1 gives the unbiased variance, m / (m - 1) times the batch's.

    Returns:
        mean and variance, each (features,).
    """
    columns = np.moveaxis(np.asarray(x), axis, 0)
    kept = np.moveaxis(_mask_like(mask, x), axis, 0)
    chosen = [column[keep] for column, keep in zip(columns, kept, strict=True)]
    means = np.array([mean_of(values) for values in chosen])
    variances = np.array([variance_of(values, ddof) for values in chosen])
    return means, variances


def batch_norm_train(x, gamma=None, beta=None, axis=-1, epsilon=1e-3, mask=None):
    """Ioffe and Szegedy, algorithm 1: normalise by the batch's own statistics.

    Returns:
        y, mean and (biased) variance. Masked positions are normalised with the others' statistics.
    """
    mean, variance = batch_statistics(x, axis, mask)
    return batch_norm_inference(x, mean, variance, gamma, beta, axis, epsilon), mean, variance


def batch_norm_inference(x, mean, variance, gamma=None, beta=None, axis=-1, epsilon=1e-3):
    """Ioffe and Szegedy, algorithm 2, line 11: normalise by given statistics, each (features,)."""
    x = np.asarray(x)
    shape = [size if k == axis % x.ndim else 1 for k, size in enumerate(x.shape)]
    y = (x - np.reshape(mean, shape)) / np.sqrt(np.reshape(variance, shape) + epsilon)
    return _affine(y, gamma, beta, axis)


def ghost_batch_norm_train(x, virtual_batch_size, gamma=None, beta=None, epsilon=1e-3, mask=None):
    """Ghost batches (Hoffer et al. 2017, arXiv 1705.08741): each normalised by itself.

    The B rows make ceil(B / virtual_batch_size) ghosts of equally many rows; the last may have
    fewer. Features are on the last axis. A ghost with nothing unmasked has no statistics and is
    left out of the means; its (masked) outputs are NaN.

    Returns:
        y, and the mean over the ghosts of their means and of their variances.
    """
    x = np.asarray(x)
    ghosts = -(-len(x) // virtual_batch_size)
    rows = -(-len(x) // ghosts)
    mask = _mask_like(mask, x)
    outputs, means, variances = [], [], []
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        if not mask[part].any():
            outputs.append(np.full_like(x[part], np.nan))
            continue
        y, mean, variance = batch_norm_train(x[part], gamma, beta, -1, epsilon, mask[part])
        outputs.append(y)
        means.append(mean)
        variances.append(variance)
    return np.concatenate(outputs), np.mean(means, axis=0), np.mean(variances, axis=0)


def _mask_like(mask, x):
    """The mask as a full bool array of x's shape; one of fewer dimensions fits the leading ones."""
    x = np.asarray(x)
    if mask is None:
        return np.ones(x.shape, bool)
    mask = np.asarray(mask, bool)
    return np.broadcast_to(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x.shape)


# Moving statistics ------------------------------------------------------------------------------


def exponential_average(start, values: Sequence, momentum: float):
    """Ioffe and Szegedy, section 3.1: m <- momentum * m + (1 - momentum) * s for each value s."""
    average = np.asarray(start, "float64")
    for value in values:
        average = momentum * average + (1 - momentum) * np.asarray(value)
    return average


def debiased_average(values: Sequence, momentum: float):
    """Kingma and Ba, section 3: the average that starts at zero, divided by 1 - momentum^n."""
    average = exponential_average(np.zeros_like(values[0]), values, momentum)
    return average / (1 - momentum ** len(values))


def cumulative_average(values: Sequence):
    """The arithmetic mean of all statistics seen: Ioffe and Szegedy, algorithm 2, line 10."""
    return sum(np.asarray(value, "float64") for value in values) / len(values)


# Batch normalisation per timestep ---------------------------------------------------------------


class TimestepBatchNorm:
    """Cooijmans et al., section 3: batch normalization with statistics of their own at each step.

    Row t of the moving statistics belongs to step t; steps beyond max_timesteps share the last.

    Training at a step normalises by the sequences alive at it (their biased variance). The row is
    updated once a batch, by `end_batch`, with the mean over the steps that share it. A step with
    fewer than two alive sequences updates nothing and is normalised as in inference, by the rows
    as they were before the batch.

    Inference at step t takes the last row <= t that training reached, else the first it reached,
    and, before any training, the row itself.

    Args:
        max_timesteps: Rows.
        features: Columns.
        gamma: (features,) or None.
        beta: (features,) or None.
        epsilon: Added to the variance.
        momentum: Of the moving average; None for the arithmetic mean of all batches.
        debias: Divide by 1 - momentum^n, n the row's updates.
        unbiased_variance: Average m / (m - 1) times the variance, m the alive sequences.
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
    ):
        self.gamma, self.beta, self.epsilon = gamma, beta, epsilon
        self.momentum, self.debias, self.ddof = momentum, debias, int(unbiased_variance)
        self.history = [[] for _ in range(max_timesteps)]  # each row's (mean, variance) updates
        self.pending = [[] for _ in range(max_timesteps)]  # this batch's, one each step
        self.features = features

    def step(self, x, t, alive=None, training=False):
        """Normalise step t's x (batch, features); alive is (batch,) bool, None for all."""
        alive = np.ones(len(x), bool) if alive is None else np.asarray(alive, bool)
        row = min(t, len(self.history) - 1)
        if training and alive.sum() >= 2:
            self.pending[row].append(batch_statistics(x, -1, alive, self.ddof))
            return batch_norm_train(x, self.gamma, self.beta, -1, self.epsilon, alive)[0]
        mean, variance = self.row(self._used_row(row))
        return batch_norm_inference(x, mean, variance, self.gamma, self.beta, -1, self.epsilon)

    def end_batch(self):
        """Give each row that this batch reached its one update."""
        for history, pending in zip(self.history, self.pending, strict=True):
            if pending:
                means, variances = zip(*pending, strict=True)
                history.append((np.mean(means, axis=0), np.mean(variances, axis=0)))
                pending.clear()

    def row(self, row):
        """The moving mean and variance of a row; 0 and 1 if no batch has reached it."""
        if not self.history[row]:
            return np.zeros(self.features), np.ones(self.features)
        means, variances = zip(*self.history[row], strict=True)
        return self._average(0.0, means), self._average(1.0, variances)

    @property
    def moving_mean(self):
        """(max_timesteps, features)."""
        return np.stack([self.row(row)[0] for row in range(len(self.history))])

    @property
    def moving_variance(self):
        """(max_timesteps, features)."""
        return np.stack([self.row(row)[1] for row in range(len(self.history))])

    @property
    def update_count(self):
        """(max_timesteps,) how many batches have updated each row."""
        return np.array([len(history) for history in self.history])

    def _used_row(self, row):
        reached = [k for k, history in enumerate(self.history) if history]
        at_or_before = [k for k in reached if k <= row]
        if at_or_before:
            return at_or_before[-1]
        return reached[0] if reached else row

    def _average(self, start, values):
        if self.momentum is None:
            return cumulative_average(values)
        if self.debias:
            return debiased_average(values, self.momentum)
        return exponential_average(np.full(self.features, start), values, self.momentum)


def timestep_batch_norm(norm: TimestepBatchNorm, x, mask=None, training=False):
    """Run a TimestepBatchNorm over x (batch, time, features) with mask (batch, time)."""
    mask = np.ones(x.shape[:2], bool) if mask is None else np.asarray(mask, bool)
    steps = [norm.step(x[:, t], t, mask[:, t], training) for t in range(x.shape[1])]
    if training:
        norm.end_batch()
    return np.stack(steps, axis=1)


# Recurrent steps --------------------------------------------------------------------------------


def sigmoid(z):
    """1 / (1 + exp(-z))."""
    return 1 / (1 + np.exp(-z))


def _identity(z):
    return z


def lstm_step(
    x,
    states,
    kernel,
    recurrent_kernel,
    bias=None,
    *,
    kernel_norm=None,
    recurrent_norm=None,
    state_norm=None,
    normalize_carry=False,
    norm_form="separate",
    input_norm=None,
    forget_norm=None,
    cell_norm=None,
    output_norm=None,
):
    """One LSTM step; with norms, Ba et al. eq. 20-22 or Cooijmans et al. eq. 6-8.

    z = kernel_norm(x W) + recurrent_norm(h U) + b, in Keras' gate order i, f, g, o;
    c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(state_norm(c')).

    Args:
        x: (batch, inputs).
        states: h and c, each (batch, units).
        kernel: W, (inputs, 4 units).
        recurrent_kernel: U, (units, 4 units).
        bias: (4 units,) or None.
        kernel_norm: Callable on (batch, 4 units), as are all norms on their width; None for none.
        recurrent_norm: On (batch, 4 units).
        state_norm: On (batch, units).
        normalize_carry: Carry state_norm(c') instead of c', as TensorFlow Addons did.
        norm_form: "joint" puts one norm a gate over W_g x + U_g h, then the bias, and none on c'.
        input_norm: Joint form, on (batch, units), as are the next three.
        forget_norm: See input_norm.
        cell_norm: See input_norm.
        output_norm: See input_norm.

    Returns:
        h', [h', c'].
    """
    h, c = states
    bias = np.zeros(np.shape(kernel)[1]) if bias is None else bias
    if norm_form == "joint":
        gates = np.split(x @ kernel + h @ recurrent_kernel, 4, axis=-1)
        norms = (input_norm, forget_norm, cell_norm, output_norm)
        gates = [(norm or _identity)(gate) for norm, gate in zip(norms, gates, strict=True)]
        i, f, g, o = np.split(np.concatenate(gates, axis=-1) + bias, 4, axis=-1)
        state_norm = None
    else:
        projected = (kernel_norm or _identity)(x @ kernel)
        recurrent = (recurrent_norm or _identity)(h @ recurrent_kernel)
        i, f, g, o = np.split(projected + recurrent + bias, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    normalised = (state_norm or _identity)(c)
    h = sigmoid(o) * np.tanh(normalised)
    return h, [h, normalised if normalize_carry else c]


def gru_step(
    x,
    states,
    kernel,
    recurrent_kernel,
    bias=None,
    *,
    reset_after=True,
    kernel_norm=None,
    kernel_candidate_norm=None,
    recurrent_norm=None,
    recurrent_candidate_norm=None,
):
    """One GRU step, Cho et al. eq. 5-8, in Keras' order: h' = z h + (1 - z) candidate.

    Without norms, Keras' two forms: `reset_after` True: candidate tanh(W x + b_0 + r (U h + b_1)),
    bias (2, 3 units); False: tanh(W x + U (r h) + b), bias (3 units,).

    With any norm, Ba et al., supplement: a norm over (z, r) and one over the candidate, each for
    x and for h; candidate tanh(LN(W x) + r LN(U h) + b), bias (3 units,), whatever `reset_after`.

    Args:
        x: (batch, inputs).
        states: h, (batch, units), in a list.
        kernel: W, (inputs, 3 units).
        recurrent_kernel: U, (units, 3 units).
        bias: See above; None for none.
        reset_after: See above.
        kernel_norm: Callable on (batch, 2 units).
        kernel_candidate_norm: Callable on (batch, units).
        recurrent_norm: Callable on (batch, 2 units).
        recurrent_candidate_norm: Callable on (batch, units).

    Returns:
        h', [h'].
    """
    (h,) = states
    units = h.shape[-1]
    norms = (kernel_norm, kernel_candidate_norm, recurrent_norm, recurrent_candidate_norm)
    normed = any(norm is not None for norm in norms)
    norm_x, norm_xc, norm_h, norm_hc = (norm or _identity for norm in norms)
    x_bias, h_bias = np.zeros((2, 3 * units))
    if bias is not None:
        x_bias, h_bias = bias if np.ndim(bias) == 2 else (bias, h_bias)

    wx, uh = x @ kernel, h @ recurrent_kernel
    gates = norm_x(wx[:, : 2 * units]) + norm_h(uh[:, : 2 * units])
    z, r = np.split(sigmoid(gates + (x_bias + h_bias)[: 2 * units]), 2, axis=-1)
    x_part = norm_xc(wx[:, 2 * units :]) + x_bias[2 * units :]
    if normed or reset_after:
        h_part = r * (norm_hc(uh[:, 2 * units :]) + h_bias[2 * units :])
    else:
        h_part = (r * h) @ recurrent_kernel[:, 2 * units :]
    h = z * h + (1 - z) * np.tanh(x_part + h_part)
    return h, [h]


def simple_rnn_step(
    x, states, kernel, recurrent_kernel, bias=None, *, kernel_norm=None, recurrent_norm=None
):
    """One step of the plain network, Ba et al. eq. 4: tanh(norm(x W) + norm(h U) + b).

    Shapes as in `lstm_step`, with `units` for `4 units`. Returns h', [h'].
    """
    (h,) = states
    z = (kernel_norm or _identity)(x @ kernel) + (recurrent_norm or _identity)(h @ recurrent_kernel)
    h = np.tanh(z if bias is None else z + bias)
    return h, [h]


def run_sequence(
    step: Callable, x, states, mask=None, go_backwards=False, zero_output_for_mask=False
):
    """Run a step over time with the mask semantics of `keras.layers.RNN`.

    A masked step keeps the states and repeats the previous output (zeros before the first), or
    gives zeros with `zero_output_for_mask`. `go_backwards` reads the input from its end and
    returns the outputs in the order of processing.

    Args:
        step: Callable (x_t, states, t, alive) -> output, new states; t counts steps in the order
            of processing, alive is (batch,) bool, as in
            `lambda x, states, t, alive: lstm_step(x, states, W, U)`.
        x: (batch, time, inputs).
        states: A list of (batch, width).
        mask: (batch, time) bool, or None.
        go_backwards: See above.
        zero_output_for_mask: See above.

    Returns:
        outputs (batch, time, width), the last states.
    """
    x = np.asarray(x)
    mask = np.ones(x.shape[:2], bool) if mask is None else np.asarray(mask, bool)
    times = range(x.shape[1])
    previous, outputs = None, []
    for t, source in enumerate(reversed(times) if go_backwards else times):
        alive = mask[:, source]
        output, proposed = step(x[:, source], states, t, alive)
        previous = np.zeros_like(output) if previous is None else previous
        keep = alive[:, None]
        states = [np.where(keep, new, old) for new, old in zip(proposed, states, strict=True)]
        previous = np.where(keep, output, previous)
        outputs.append(np.where(keep, previous, 0) if zero_output_for_mask else previous)
    return np.stack(outputs, axis=1), states
