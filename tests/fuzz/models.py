"""Make a random model from a seed, with one function for each part of a model.

::

    model       1 or 2 inputs (concatenated); 1 to 3 blocks; 1 or 2 heads
    input       token ids -> Embedding, or features, with or without a mask
    block       norm | recurrence | Bidirectional | other layer | residual
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
# Seed of the second stream of random numbers. New choices use it, so that the models of older seeds
# change as little as possible.
LATER = 17

# Number of models with each policy. TFLite supports float32 only, so other policies are rare.
POLICIES = {"float32": 27, "float64": 1, "mixed_float16": 1, "mixed_bfloat16": 1}

Data = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class RandomModel:
    """A model that was not called yet, and data for it.

    Attributes:
        seed: the seed of the model and the data.
        policy: dtype policy of the layers.
        model: a model with random weights and moving statistics.
        data: arrays (samples, ...) by input name.
    """

    seed: int
    policy: str
    model: keras.Model
    data: Data


def random_model(seed: int, policy: str | None = None) -> RandomModel:
    """Draw a model and its data. They depend on the seed only, and not on earlier calls.

    Args:
        seed: the seed of the model and the data.
        policy: dtype policy in place of the random policy; the weights do not change.
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
        seed: the seed.
        later: whether to use the second stream, see `LATER`.

    Attributes:
        later: choices of the second stream.
        states: the stream that draws which layers learn their initial states.
    """

    def __init__(self, seed: int, later: bool = False) -> None:
        self.numbers = np.random.default_rng([seed, LATER] if later else seed)
        self.later = self if later else Rng(seed, later=True)
        self.states = np.random.default_rng([seed, LATER, 1])

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.numbers.random() < probability)

    def number(self, low: int, high: int) -> int:
        """Draw an integer from low to high, both included."""
        return int(self.numbers.integers(low, high + 1))

    def one(self, *options: Any) -> Any:
        """Draw one of the options."""
        return options[self.number(0, len(options) - 1)]

    def weighted(self, weights: dict[Any, int]) -> Any:
        """Draw a key with a probability proportional to its weight."""
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
    return ids, embed(ids), np.where(_unmasked(rng, time), values, 0).astype("int32")


def _features(rng: Rng, name: str, shape: tuple, time: int) -> tuple[Any, Any, np.ndarray]:
    size = rng.number(2, 4)
    features = keras.Input(batch_shape=(*shape, size), name=name)
    values = rng.numbers.normal(size=(SAMPLES, time, size))
    if not rng.chance(0.5):
        return features, features, values.astype(features.dtype)
    values = np.where(_unmasked(rng, time)[:, :, None], values, 0.0)
    return features, keras.layers.Masking()(features), values.astype(features.dtype)


def _unmasked(rng: Rng, time: int) -> np.ndarray:
    """Draw a mask (samples, time) with padding on the right and gaps; timestep 0 is unmasked.

    A mean over zero timesteps is NaN, and `check` also runs sequences of one timestep.
    """
    lengths = rng.numbers.integers(1, time + 1, (SAMPLES, 1))
    unmasked = (np.arange(time) < lengths) & (rng.numbers.random((SAMPLES, time)) < 0.9)
    unmasked[:, 0] = True
    return unmasked


def _weight(rng: Rng, variable: Any) -> np.ndarray:
    """Draw a typical value of a trained weight or moving statistic."""
    shape, name = variable.shape, variable.name
    if name == "update_count":
        # Training reaches the rows of statistics in order, without gaps.
        rows = np.arange(int(np.prod(shape))).reshape(shape)
        return np.where(rows < rng.number(1, max(rows.size, 1)), 3, 0)
    if name in ("gamma", "scale", "moving_variance", "renorm_stddev"):
        return rng.numbers.uniform(0.5, 1.5, shape)
    return 0.5 * rng.numbers.normal(size=shape)


# Blocks: sequence (batch, time, features) -> sequence -------------------------------------------


def _norm_block(rng: Rng, x: Any) -> Any:
    return _norm(rng, inside=False)(x)


def _recurrent_block(rng: Rng, x: Any) -> Any:
    return _recurrence(rng, x.shape, return_sequences=True)(x)


def _bidirectional_block(rng: Rng, x: Any) -> Any:
    return _bidirectional(rng, x.shape, return_sequences=True)(x)


def _encoder_block(rng: Rng, x: Any) -> Any:
    """Add a decoder whose initial states are the final states of an encoder."""
    kind = rng.one(*KINDS)
    units = rng.number(2, 6)
    encoder, decoder = (
        _recurrence(rng, x.shape, kind, units, return_sequences=True, return_state=state)
        for state in (True, False)
    )
    y, *states = encoder(x)
    return decoder(y, initial_state=states)


def _other_block(rng: Rng, x: Any) -> Any:
    width = rng.number(2, 5)
    layers = keras.layers
    return rng.one(
        lambda: layers.Dense(width, activation=_activation(rng)),
        # Not TimeDistributed of Keras: with a mask it fails if the batch is larger than the time.
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
    y = rng.one(_norm_block, _recurrent_block, _bidirectional_block)(rng, x)
    return keras.layers.Add()([x, keras.layers.Dense(x.shape[-1])(y)])


BLOCKS = {
    _recurrent_block: 5,
    _bidirectional_block: 2,
    _norm_block: 3,
    _other_block: 3,
    _encoder_block: 1,
    _attention_block: 1,
    _residual_block: 1,
}


# Heads: a sequence -> outputs -------------------------------------------------------------------


def _sequence_head(rng: Rng, x: Any) -> Any:
    return keras.layers.Dense(rng.number(1, 4), activation=rng.one(None, "softmax"))(x)


def _last_head(rng: Rng, x: Any) -> Any:
    # Some models return the final states too.
    return _recurrence(rng, x.shape, return_state=rng.chance(0.3))(x)


def _bidirectional_head(rng: Rng, x: Any) -> Any:
    return _bidirectional(rng, x.shape)(x)


def _pooled_head(rng: Rng, x: Any) -> Any:
    x = rng.one(keras.layers.GlobalAveragePooling1D, keras.layers.GlobalMaxPooling1D)()(x)
    if rng.chance(0.5):
        x = keras_norm.BatchNormalization(momentum=None)(x)
    return keras.layers.Dense(rng.number(1, 4))(x)


HEADS = {_sequence_head: 3, _last_head: 3, _bidirectional_head: 1, _pooled_head: 2}


# Layers -----------------------------------------------------------------------------------------


def _norm(rng: Rng, inside: bool) -> keras.layers.Layer:
    """Draw a normalization layer of keras_norm or Keras, for a slot (`inside`) or for sequences."""
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
    """Draw a recurrent layer of keras_norm or Keras for inputs of this shape."""
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
    options["learn_initial_state"] = bool(rng.states.random() < 0.2)
    return getattr(keras_norm, family + kind)(units, **options)


def _of_keras(rng: Rng, kind: str, units: int, **options: Any) -> keras.layers.RNN:
    """Draw a recurrent layer of Keras, or `keras.layers.RNN` over a cell of Keras."""
    if rng.chance(0.6):
        return getattr(keras.layers, kind)(units, **options)
    of_loop = {name: options.pop(name) for name in [*options] if name in LOOP_OPTIONS}
    return keras.layers.RNN(getattr(keras.layers, f"{kind}Cell")(units, **options), **of_loop)


def _bidirectional(rng: Rng, shape: tuple, **options: Any) -> keras.layers.Bidirectional:
    layer = _recurrence(rng, shape, go_backwards=False, **options)
    merge = rng.weighted({"concat": 3, "sum": 1, "mul": 1, "ave": 1})
    return keras.layers.Bidirectional(layer, merge_mode=merge)


def _activation(rng: Rng) -> str | None:
    return rng.one(None, "relu", "tanh", "swish")
