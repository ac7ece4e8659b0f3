"""Write the files of this folder, once: python -m tests.data.make. See README.md."""

import json
import pathlib
import zipfile

import keras
import numpy as np

import keras_norm as kn

FOLDER = pathlib.Path(__file__).parent
RNG = np.random.default_rng(13)
BATCH, TIME, FEATURES, UNITS = 2, 5, 3, 3


def rows(*shape):
    return RNG.normal(size=shape).astype("float32")


def sequences(**kwargs):
    return keras.Input((TIME, FEATURES), name="x", **kwargs)


def layers_of(kind, **kwargs):
    """Return LSTM, GRU or SimpleRNN layers with every kind of norm, by name."""
    plain, layer_norm, batch_norm = (
        getattr(kn, f"{prefix}{kind}") for prefix in ("Norm", "LayerNorm", "BatchNorm")
    )
    last = list(plain(1, norm=kn.LayerNormalization()).cell.slots.widths)[-1]
    return {
        "layer_norm": layer_norm(UNITS, return_sequences=True, **kwargs),
        "layer_norm_no_bias": layer_norm(UNITS, use_bias=False, dropout=0.5, **kwargs),
        "batch_norm": batch_norm(UNITS, max_timesteps=3, return_sequences=True, **kwargs),
        "batch_norm_cumulative": batch_norm(
            UNITS, max_timesteps=TIME, momentum=None, go_backwards=True, **kwargs
        ),
        "none": plain(UNITS, recurrent_dropout=0.5, **kwargs),
        "rms": plain(UNITS, norm=kn.RMSNormalization(), **kwargs),
        "rms_no_bias": plain(UNITS, norm=kn.RMSNormalization(), use_bias=False, **kwargs),
        "outside": plain(
            UNITS, norm=kn.LayerNormalization(epsilon_placement="outside", ddof=1), **kwargs
        ),
        "keras_batch_norm": plain(UNITS, norm=keras.layers.BatchNormalization(), **kwargs),
        "one_slot": plain(UNITS, norm={last: kn.VarianceNormalization(scale=True)}, **kwargs),
        "activations": layer_norm(
            UNITS, activation="relu", unroll=True, bias_initializer="ones", **kwargs
        ),
        "bidirectional": keras.layers.Bidirectional(layer_norm(2, **kwargs)),
    }


def branches(inputs, layers):
    return {name: layer(inputs) for name, layer in layers.items()}


def lstm():
    x = sequences()
    layers = layers_of("LSTM") | {
        "joint": kn.NormLSTM(UNITS, norm=kn.LayerNormalization(), norm_form="joint"),
        "normalize_carry": kn.LayerNormLSTM(UNITS, normalize_carry=True),
        "no_forget_bias": kn.LayerNormLSTM(UNITS, unit_forget_bias=False),
    }
    return keras.Model({"x": x}, branches(x, layers)), {"x": rows(BATCH, TIME, FEATURES)}


def gru():
    x = sequences()
    layers = layers_of("GRU") | {"before": kn.NormGRU(UNITS, reset_after=False)}
    return keras.Model({"x": x}, branches(x, layers)), {"x": rows(BATCH, TIME, FEATURES)}


def simple_rnn():
    x = sequences()
    return keras.Model({"x": x}, branches(x, layers_of("SimpleRNN"))), {
        "x": rows(BATCH, TIME, FEATURES)
    }


def cells():
    x = sequences(batch_size=BATCH)
    stacked = [
        kn.LayerNormLSTMCell(UNITS),
        kn.BatchNormGRUCell(UNITS, max_timesteps=3),
        kn.NormSimpleRNNCell(UNITS, norm=kn.RMSNormalization()),
    ]
    layers = {
        "stacked": keras.layers.RNN(keras.layers.StackedRNNCells(stacked)),
        "lstm": keras.layers.RNN(kn.BatchNormLSTMCell(UNITS, max_timesteps=4)),
        "gru": keras.layers.RNN(kn.LayerNormGRUCell(UNITS), return_sequences=True),
        "simple_rnn": keras.layers.RNN(kn.BatchNormSimpleRNNCell(UNITS, max_timesteps=4)),
        "stateful": kn.LayerNormLSTM(UNITS, stateful=True),
    }
    return keras.Model({"x": x}, branches(x, layers)), {"x": rows(BATCH, TIME, FEATURES)}


def masks():
    ids, start = keras.Input((TIME,), name="ids", dtype="int32"), keras.Input((UNITS,), name="h")
    x = keras.layers.Embedding(7, FEATURES, mask_zero=True)(ids)
    layers = {
        "bidirectional": keras.layers.Bidirectional(kn.BatchNormLSTM(UNITS, max_timesteps=TIME)),
        "zero_output": kn.LayerNormGRU(UNITS, return_sequences=True, zero_output_for_mask=True),
        "simple_rnn": kn.LayerNormSimpleRNN(UNITS, go_backwards=True),
        "batch_norm": kn.BatchNormalization(debias=True),
        "timesteps": kn.TimestepBatchNormalization(3),
    }
    y, h, c = kn.LayerNormLSTM(UNITS, return_sequences=True, return_state=True)(x)
    outputs = branches(x, layers) | {
        "decoder": kn.NormLSTM(UNITS)(y, initial_state=[h, c]),
        "from_state": kn.LayerNormGRU(UNITS)(y, initial_state=start),
    }
    inputs = {
        "ids": np.array([[3, 1, 6, 2, 5], [4, 2, 0, 0, 0], [0, 0, 1, 0, 2]], "int32"),
        "h": rows(3, UNITS),
    }
    return keras.Model({"ids": ids, "h": start}, outputs), inputs


def norms():
    x = sequences()
    layers = {
        "layer": kn.LayerNormalization(),
        "layer_axes": kn.LayerNormalization(axis=[1, 2], epsilon=1e-5, center=False),
        "layer_outside": kn.LayerNormalization(epsilon_placement="outside", ddof=1, scale=False),
        "rms": kn.RMSNormalization(),
        "rms_axis": kn.RMSNormalization(axis=1, epsilon=1e-3),
        "variance": kn.VarianceNormalization(),
        "variance_affine": kn.VarianceNormalization(center=True, scale=True),
        "batch": kn.BatchNormalization(),
        "batch_axis": kn.BatchNormalization(axis=1, scale=False, unbiased_variance=True),
        "batch_renorm": kn.BatchNormalization(renorm=True, renorm_clipping={"rmax": 3.0}),
        "batch_debias": kn.BatchNormalization(debias=True),
        "batch_cumulative": kn.BatchNormalization(momentum=None, virtual_batch_size=4),
        "timesteps": kn.TimestepBatchNormalization(3),
        "timesteps_cumulative": kn.TimestepBatchNormalization(TIME, momentum=None, debias=False),
    }
    return keras.Model({"x": x}, branches(x, layers)), {"x": rows(BATCH, TIME, FEATURES)}


def half():
    x = sequences()
    policy = {"dtype": "mixed_float16"}
    layers = {
        "lstm": kn.LayerNormLSTM(UNITS, **policy),
        "batch_norm": kn.BatchNormGRU(UNITS, max_timesteps=4, **policy),
        "bfloat16": kn.LayerNormGRU(UNITS, dtype="mixed_bfloat16"),
        "rms": kn.NormSimpleRNN(UNITS, norm=kn.RMSNormalization(), **policy),
        "layer": kn.LayerNormalization(**policy),
        "batch": kn.BatchNormalization(**policy),
        "float64": kn.LayerNormLSTM(UNITS, dtype="float64"),
    }
    return keras.Model({"x": x}, branches(x, layers)), {"x": rows(BATCH, TIME, FEATURES)}


def learned(weight):
    """Draw a typical value of a trained weight."""
    shape = tuple(weight.shape)
    if weight.name == "update_count":  # all rows, or those of the first timesteps
        return RNG.integers(1, 9, shape) * (np.arange(shape[0]) < 3 if shape else 1)
    if "variance" in weight.name or "stddev" in weight.name:
        return RNG.uniform(0.4, 2.0, shape)
    if weight.name in ("gamma", "scale"):
        return RNG.uniform(0.5, 1.5, shape)
    return RNG.normal(0.0, 0.7, shape)


def compress(path):
    """Compress a .keras file: Keras does not compress, and HDF5 fills small files with zeros."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in parts.items():
            file.writestr(name, content)


def main():
    for make in (lstm, gru, simple_rnn, cells, masks, norms, half):
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        model, inputs = make()
        for weight in model.weights:
            weight.assign(learned(weight))
        stem = FOLDER / make.__name__
        model.save(f"{stem}.keras")
        compress(f"{stem}.keras")
        expected = {
            name: np.asarray(y, "float64") for name, y in model(inputs, training=False).items()
        }
        np.savez_compressed(f"{stem}_inputs.npz", **inputs)
        np.savez_compressed(f"{stem}_outputs.npz", **expected)
        if make in (gru, norms):
            pathlib.Path(f"{stem}_config.json").write_text(json.dumps(model.get_config()) + "\n")
            np.savez_compressed(f"{stem}_weights.npz", *model.get_weights())


if __name__ == "__main__":
    main()
