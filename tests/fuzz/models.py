"""A random model from a seed: a grammar of small functions, each of which draws one part.

::

    model       inputs, joined where there are two; 1 to 3 blocks; 1 or 2 heads
    input       token ids -> Embedding, or features, with or without a mask
    block       norm | recurrence | both ways | ordinary layer | residual
    head        a sequence, or one vector for each sample
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_norm

SAMPLES = 8
VOCABULARY = 6
# The stream of choices that came later: of those that leave the models of the tests as they were.
LATER = 17

# TFLite takes float32 alone: of the others there are a few.
POLICIES = {"float32": 27, "float64": 1, "mixed_float16": 1, "mixed_bfloat16": 1}

Data = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class RandomModel:
    """A model that has computed nothing yet, and data for it.

    Attributes:
        seed: what both were drawn from.
        policy: dtype policy of the layers.
        model: with random weights and moving statistics.
        data: arrays (samples, ...) by input name.
    """

    seed: int
    policy: str
    model: keras.Model
    data: Data


def random_model(seed: int, policy: str | None = None) -> RandomModel:
    """Draw a model and its data; the same seed gives the same, whatever was drawn before.

    Args:
        seed: what all is drawn from.
        policy: dtype policy in place of the one drawn; all else stays.
    """
    keras.backend.clear_session()  # layers are numbered from 0
    keras.utils.set_random_seed(seed)
    rng = Rng(seed)
    drawn = rng.weighted(POLICIES)
    policy = policy or drawn
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model, data = _model(rng)
    finally:
        keras.config.set_dtype_policy(before)
    for variable in model.weights:
        variable.assign(_weight(rng, variable))
    return RandomModel(seed, policy, model, data)


class Rng:
    """Random choices.

    Args:
        seed: which they are.
        later: whether they are those of a choice that came later, which must not move the others.
    """

    def __init__(self, seed: int, later: bool = False) -> None:
        self.numbers = np.random.default_rng([seed, LATER] if later else seed)
        self.later = self if later else Rng(seed, later=True)

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.numbers.random() < probability)

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.numbers.integers(low, high + 1))

    def one(self, *options: Any) -> Any:
        """One of some options."""
        return options[self.number(0, len(options) - 1)]

    def weighted(self, weights: dict[Any, int]) -> Any:
        """A key, as often as its weight says."""
        return self.one(*(key for key, weight in weights.items() for _ in range(weight)))


# Models -----------------------------------------------------------------------------------------


def _model(rng: Rng) -> tuple[keras.Model, Data]:
    batch = SAMPLES if rng.chance(0.1) else None
    time = rng.number(4, 7)
    shape = (batch, time if rng.chance(0.15) else None)
    data: Data = {}
    inputs, sequences = [], []
    for k in range(rng.weighted({1: 3, 2: 1})):
        tensor, sequence, values = rng.one(_ids, _features)(rng, f"input_{k}", shape, time)
        data[f"input_{k}"] = values
        inputs.append(tensor)
        sequences.append(sequence)
    x = sequences[0] if len(sequences) == 1 else keras.layers.Concatenate()(sequences)
    for _ in range(rng.number(1, 3)):
        x = rng.weighted(BLOCKS)(rng, x)
    outputs = [rng.weighted(HEADS)(rng, x) for _ in range(rng.weighted({1: 2, 2: 1}))]
    outputs = [y for head in outputs for y in keras.tree.flatten(head)]
    if rng.chance(0.3):
        outputs = {f"head {k}": y for k, y in enumerate(outputs)}
    return keras.Model(inputs, outputs, name="fuzz"), data


def _ids(rng: Rng, name: str, shape: tuple, time: int) -> tuple[Any, Any, np.ndarray]:
    ids = keras.Input(batch_shape=shape, dtype="int32", name=name)
    embed = keras.layers.Embedding(VOCABULARY, rng.number(2, 4), mask_zero=rng.chance(0.7))
    values = rng.numbers.integers(1, VOCABULARY, (SAMPLES, time))
    return ids, embed(ids), np.where(_alive(rng, time), values, 0).astype("int32")


def _features(rng: Rng, name: str, shape: tuple, time: int) -> tuple[Any, Any, np.ndarray]:
    size = rng.number(2, 4)
    features = keras.Input(batch_shape=(*shape, size), name=name)
    values = rng.numbers.normal(size=(SAMPLES, time, size))
    if not rng.chance(0.5):
        return features, features, values.astype(features.dtype)
    values = np.where(_alive(rng, time)[:, :, None], values, 0.0)
    return features, keras.layers.Masking()(features), values.astype(features.dtype)


def _alive(rng: Rng, time: int) -> np.ndarray:
    """A mask (samples, time) with padding on the right, and holes; timestep 0 is alive.

    (The mean over no timesteps is NaN, and `check` runs sequences of the first timestep too.)
    """
    lengths = rng.numbers.integers(1, time + 1, (SAMPLES, 1))
    alive = (np.arange(time) < lengths) & (rng.numbers.random((SAMPLES, time)) < 0.9)
    alive[:, 0] = True
    return alive


def _weight(rng: Rng, variable: Any) -> np.ndarray:
    """An ordinary value of a weight or a moving statistic, not the one it starts with."""
    shape, name = variable.shape, variable.name
    if name == "update_count":
        # Rows of statistics are reached from the first one on.
        rows = np.arange(int(np.prod(shape))).reshape(shape)
        return np.where(rows < rng.number(1, max(rows.size, 1)), 3, 0)
    if name in ("gamma", "scale", "moving_variance", "renorm_stddev"):
        return rng.numbers.uniform(0.5, 1.5, shape)
    return 0.5 * rng.numbers.normal(size=shape)


# Blocks: a sequence (batch, time, features) -> another ------------------------------------------


def _norm_block(rng: Rng, x: Any) -> Any:
    return _norm(rng, inside=False)(x)


def _recurrent_block(rng: Rng, x: Any) -> Any:
    return _recurrence(rng, x.shape, return_sequences=True)(x)


def _both_ways_block(rng: Rng, x: Any) -> Any:
    return _both_ways(rng, x.shape, return_sequences=True)(x)


def _encoder_block(rng: Rng, x: Any) -> Any:
    """A recurrence that starts from the states in which another one ended."""
    kind = rng.one(*KINDS)
    units = rng.number(2, 6)
    encoder, decoder = (
        _recurrence(rng, x.shape, kind, units, return_sequences=True, return_state=state)
        for state in (True, False)
    )
    y, *states = encoder(x)
    return decoder(y, initial_state=states)


def _ordinary_block(rng: Rng, x: Any) -> Any:
    width = rng.number(2, 5)
    layers = keras.layers
    return rng.one(
        lambda: layers.Dense(width, activation=_activation(rng)),
        # Not TimeDistributed: under a mask Keras' own takes no batch larger than the time.
        lambda: layers.EinsumDense("bti,io->bto", (None, width)),
        lambda: layers.Conv1D(width, 3, padding=rng.one("same", "causal")),
        lambda: layers.DepthwiseConv1D(2, padding="same"),
        lambda: layers.Activation(rng.one("relu", "gelu", "softmax")),
        lambda: layers.Dropout(0.3),
        lambda: layers.SpatialDropout1D(0.3),
        lambda: layers.GaussianNoise(0.1),
        lambda: layers.AveragePooling1D(2, padding="same"),
        lambda: layers.ZeroPadding1D(1),
        lambda: layers.UpSampling1D(2),
    )()(x)


def _attention_block(rng: Rng, x: Any) -> Any:
    return keras.layers.MultiHeadAttention(rng.number(1, 2), 3)(x, x)


def _residual_block(rng: Rng, x: Any) -> Any:
    y = rng.one(_norm_block, _recurrent_block, _both_ways_block)(rng, x)
    return keras.layers.Add()([x, keras.layers.Dense(x.shape[-1])(y)])


BLOCKS = {
    _recurrent_block: 5,
    _both_ways_block: 2,
    _norm_block: 3,
    _ordinary_block: 3,
    _encoder_block: 1,
    _attention_block: 1,
    _residual_block: 1,
}


# Heads: a sequence -> outputs -------------------------------------------------------------------


def _sequence_head(rng: Rng, x: Any) -> Any:
    return keras.layers.Dense(rng.number(1, 4), activation=rng.one(None, "softmax"))(x)


def _last_head(rng: Rng, x: Any) -> Any:
    # With the final states among the outputs at times.
    return _recurrence(rng, x.shape, return_state=rng.chance(0.3))(x)


def _both_ways_head(rng: Rng, x: Any) -> Any:
    return _both_ways(rng, x.shape)(x)


def _pooled_head(rng: Rng, x: Any) -> Any:
    x = rng.one(keras.layers.GlobalAveragePooling1D, keras.layers.GlobalMaxPooling1D)()(x)
    if rng.chance(0.5):
        x = keras_norm.BatchNormalization(momentum=None)(x)
    return keras.layers.Dense(rng.number(1, 4))(x)


HEADS = {_sequence_head: 3, _last_head: 3, _both_ways_head: 1, _pooled_head: 2}


# Layers -----------------------------------------------------------------------------------------


def _norm(rng: Rng, inside: bool) -> keras.layers.Layer:
    """A normalization layer, of ours or of Keras'; `inside` a recurrence or over sequences."""
    center, scale = rng.chance(0.7), rng.chance(0.7)
    batch_norms: list[Callable[[], Any]] = [
        lambda: keras_norm.BatchNormalization(
            debias=rng.chance(0.5), center=center, scale=scale, momentum=rng.one(None, 0.9)
        ),
        lambda: keras_norm.TimestepBatchNormalization(
            rng.number(1, 8), debias=rng.chance(0.5), center=center, scale=scale
        ),
        lambda: keras.layers.BatchNormalization(center=center, scale=scale),
    ]
    if not inside:
        batch_norms.append(
            lambda: keras_norm.BatchNormalization(renorm=rng.chance(0.5), virtual_batch_size=None)
        )
    return rng.one(
        lambda: keras_norm.LayerNormalization(
            epsilon=1e-3,
            center=center,
            scale=scale,
            epsilon_placement=rng.one("inside", "outside"),
            ddof=rng.one(0, 0, 1),
        ),
        lambda: keras_norm.RMSNormalization(epsilon=1e-3),
        lambda: keras_norm.VarianceNormalization(center=center, scale=scale),
        lambda: keras.layers.LayerNormalization(center=center, scale=scale),
        lambda: keras.layers.RMSNormalization(epsilon=1e-3),
        *batch_norms,
    )()


KINDS = ("LSTM", "GRU", "SimpleRNN")
LOOP_OPTIONS = {"go_backwards", "zero_output_for_mask", "unroll", "return_sequences"}
LOOP_OPTIONS |= {"return_state", "name", "stateful"}


def _recurrence(
    rng: Rng, shape: tuple, kind: str | None = None, units: int | None = None, **options: Any
) -> keras.layers.RNN:
    """A recurrent layer for inputs of this shape; Keras' own now and then."""
    kind = kind or rng.one(*KINDS)
    units = units or rng.number(2, 6)
    options = {
        "use_bias": rng.chance(0.8),
        "go_backwards": rng.chance(0.1),
        "zero_output_for_mask": rng.chance(0.2),
        "unroll": shape[1] is not None and rng.chance(0.3),
        "dropout": rng.one(0.0, 0.0, 0.2),
        "recurrent_dropout": rng.one(0.0, 0.0, 0.2),
        "activation": rng.weighted({"tanh": 8, "relu": 1, "softsign": 1}),
        **options,
    }
    if kind != "SimpleRNN":
        options["recurrent_activation"] = rng.weighted({"sigmoid": 8, "hard_sigmoid": 1})
    if shape[0] is not None and rng.chance(0.3):
        return getattr(keras.layers, kind)(units, **options)
    if rng.later.chance(0.3):
        return _of_keras(rng.later, kind, units, **options)
    family = rng.weighted({"LayerNorm": 3, "BatchNorm": 3, "Norm": 2})
    if family == "BatchNorm":
        options |= {"max_timesteps": rng.number(1, 8), "debias": rng.chance(0.7)}
    elif kind == "LSTM":
        options["norm_form"] = rng.one("separate", "separate", "joint")
        options["normalize_carry"] = options["norm_form"] == "separate" and rng.chance(0.2)
    if family == "Norm":
        options["norm"] = None if rng.chance(0.3) else _norm(rng, inside=True)
        if kind == "GRU" and options["norm"] is None:
            options["reset_after"] = rng.chance(0.5)
    return getattr(keras_norm, family + kind)(units, **options)


def _of_keras(rng: Rng, kind: str, units: int, **options: Any) -> keras.layers.RNN:
    """A recurrent layer of Keras' own, or its cell in the loop for all cells."""
    if rng.chance(0.6):
        return getattr(keras.layers, kind)(units, **options)
    of_loop = {name: options.pop(name) for name in [*options] if name in LOOP_OPTIONS}
    return keras.layers.RNN(getattr(keras.layers, f"{kind}Cell")(units, **options), **of_loop)


def _both_ways(rng: Rng, shape: tuple, **options: Any) -> keras.layers.Bidirectional:
    layer = _recurrence(rng, shape, go_backwards=False, **options)
    merge = rng.weighted({"concat": 3, "sum": 1, "mul": 1, "ave": 1})
    return keras.layers.Bidirectional(layer, merge_mode=merge)


def _activation(rng: Rng) -> str | None:
    return rng.one(None, "relu", "tanh", "swish")
