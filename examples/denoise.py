"""Train a model that removes noise from speech, and run its int8 file as on a microcontroller.

`python -m examples.denoise` trains two LN-LSTM layers on voice-like sounds for two minutes, and
runs single-step files on other sounds. It needs the extra `micro`, which is for Linux.
"""

import argparse
import pathlib

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from keras_norm.export import Step, check, export_tflite, open_runner

RATE, FRAME, HOP, UNITS = 16_000, 512, 128, 64  # an STFT frame of 32 ms starts every 8 ms


def voice(rng, samples):
    """Make a sound like speech: harmonic tones, filtered by three formants, and pauses."""
    sound, start, pitch = np.zeros(samples + RATE), 0, rng.uniform(90, 250)
    while start < samples:
        t = np.linspace(0, 1, int(rng.uniform(0.1, 0.35) * RATE))
        hz = np.arange(1, 31)[:, None] * pitch * 2 ** (rng.uniform(-0.3, 0.3, 2) @ [t**0, t])
        formants = rng.uniform([250, 800, 2200], [900, 2500, 3500])
        gains = 1 / (1 + ((hz[..., None] - formants) / 130) ** 2) @ [1, 0.4, 0.2]
        tone = np.sum(gains * np.sin(2 * np.pi * np.cumsum(hz, axis=1) / RATE), axis=0)
        sound[start : start + len(t)] += rng.uniform(0.3, 1) * np.sin(np.pi * t) * tone
        start += len(t) + int(rng.choice([0, 0.05, 0.1, 0.4]) * RATE)
    return sound[:samples]


def noise(rng, samples):
    """Make background noise: a hiss; half of the sounds also contain taps on a table."""
    white = np.fft.rfft(rng.normal(size=samples))
    hiss = np.fft.irfft(white / np.arange(1, len(white) + 1) ** 0.5, samples)
    tap = rng.normal(size=800) * np.exp(-np.arange(800) / 150)
    taps = np.convolve(rng.random(samples) < 10 / RATE, tap)[:samples]
    return hiss / hiss.std() + rng.choice([0, 3]) * taps / taps.std()


def mix(seed, count, frames):
    """Return two STFTs (count, frames, bins): noisy sounds (SNR -5 to 10 dB), clean sounds."""
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(count):
        clean, added = (make(rng, FRAME + HOP * (frames - 1)) for make in (voice, noise))
        added *= clean.std() / added.std() * 10 ** (rng.uniform(-10, 5) / 20)
        pairs.append(np.array([clean + added, clean]) * 10 ** rng.uniform(-2.5, -1))  # loudness
    return tf.signal.stft(np.stack(pairs, axis=1).astype("float32"), FRAME, HOP).numpy()


def build():
    """Build a model that predicts a mask in [0, 1]: clean magnitude = mask * noisy magnitude."""
    x = inputs = keras.Input((None, FRAME // 2 + 1), name="log_magnitude")
    x = keras_norm.LayerNormalization(name="frame_norm")(x)  # removes the loudness
    for name in ("lstm_1", "lstm_2"):
        x = keras_norm.LayerNormLSTM(UNITS, return_sequences=True, name=name)(x)
    return keras.Model(inputs, keras.layers.Dense(inputs.shape[-1], "sigmoid", name="mask")(x))


def snr(*spectra):
    """Return the mean SNR in dB; `spectra` are two STFTs: of estimated and of clean sounds."""
    window = tf.signal.inverse_stft_window_fn(HOP)
    x, clean = (tf.signal.inverse_stft(s, FRAME, HOP, window_fn=window).numpy() for s in spectra)
    return np.mean(10 * np.log10(np.sum(clean**2, axis=1) / np.sum((x - clean) ** 2, axis=1)))


def main(argv=None):
    """Train, export and check a model; return 0 if the check passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/denoise"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=300, help="number of training sounds")
    args = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    (noisy, clean), (noisy_test, clean_test) = mix(0, args.samples, 250), mix(1, 12, 1000)
    x, x_test = (np.log(np.abs(spectra) + 1e-5) for spectra in (noisy, noisy_test))
    model, files = build(), []
    model.compile(keras.optimizers.Adam(2e-3), "mse")
    model.fit(x, np.clip(np.real(clean / noisy), 0, 1), 16, args.epochs, verbose=2)
    predicted = model.predict(x_test, verbose=0)
    print(f"SNR of the noisy sounds: {snr(noisy_test, clean_test):.2f} dB")
    print(f"SNR with the Keras model: {snr(noisy_test * predicted, clean_test):.2f} dB")
    for kind in (None, "int16x8", "int8"):
        file = args.out / f"{kind or 'float32'}.tflite"
        export_tflite(model, file, signature="step", quantize=kind, samples=x[:20], overwrite=True)
        files.append(file)
        for runtime in ("TFLite", "TFLite Micro"):
            with open_runner(file, signature_name="step", runtime=runtime) as run:
                mask = Step(model).over_time(run, {"log_magnitude": x_test})["mask"]
            print(f"SNR with {file.name} in {runtime}: {snr(noisy_test * mask, clean_test):.2f} dB")
    report = check(model, files, x_test[:, :250])
    report.print()
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
