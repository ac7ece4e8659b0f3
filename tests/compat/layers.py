"""Layers that compute the equations of other libraries' layers."""

import functools

import keras

import keras_norm
from keras_norm.compat import BiasedLayerNormalization
from tests.compat.recorded import UNITS

KERAS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}
OURS = {"lstm": keras_norm.NormLSTM, "gru": keras_norm.NormGRU, "rnn": keras_norm.NormSimpleRNN}


class CustomCell(keras.layers.LSTMCell):
    """A user's cell."""


class CustomLayer(keras.layers.LSTM):
    """A user's recurrent layer."""


class CustomDense(keras.layers.Dense):
    """A user's layer without a recurrence."""


def layer_norm_lstm(epsilon=1e-5, **options):
    """Create the LSTM of TorchScript, NeMo and TensorFlow Addons: it carries the normalized c."""
    options = {"normalize_carry": True, "return_sequences": True, **options}
    return keras_norm.LayerNormLSTM(UNITS, epsilon=epsilon, **options)


def projected_lstm(size=UNITS - 1):
    """Create the LSTM of PyTorch with `proj_size`."""
    return keras_norm.NormLSTM(UNITS, projection_units=size, return_sequences=True)


addons_lstm = functools.partial(layer_norm_lstm, 1e-3)


def kiros_layer(kind, **options):
    """Create the layer of a kind of `kiros_code.SHAPES`."""
    options = {"return_sequences": True, "dtype": "float64", **options}
    if not kind.startswith("ln"):
        return KERAS[kind](UNITS, **options)
    of_x, of_h = (
        cls(epsilon=1e-5) for cls in (BiasedLayerNormalization, keras_norm.LayerNormalization)
    )
    norms = {"kernel_norm": of_x, "recurrent_norm": of_h}
    if kind == "lnlstm":
        return keras_norm.NormLSTM(UNITS, norms | {"state_norm": of_h}, **options)
    norms |= {"kernel_candidate_norm": of_x, "recurrent_candidate_norm": of_h}
    return keras_norm.NormGRU(UNITS, norms, **options)


def dreamer_gru(epsilon=1e-3, norm=keras_norm.LayerNormalization, **options):
    """Create the GRU of Dreamer: one norm of all columns of W x + U h."""
    options = {"norm_form": "joint_all", "return_sequences": True, "dtype": "float64", **options}
    return keras_norm.NormGRU(UNITS, norm(epsilon=epsilon), **options)


def haste_lstm_without_beta():
    """Create the LSTM of haste without the betas of W x and U h, which haste does not have."""
    norm, plain = (keras_norm.LayerNormalization(epsilon=1e-5, center=c) for c in (True, False))
    norms = {"kernel_norm": plain, "recurrent_norm": plain, "state_norm": norm}
    return keras_norm.NormLSTM(UNITS, norms, return_sequences=True)
