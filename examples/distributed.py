"""Train a BN-LSTM on several processes with JAX, resume after a crash, export, and check.

Run the two commands in two terminals. Kill one process, and run both commands again: the training
continues after the last complete epoch.

    export KERAS_BACKEND=jax
    python -m examples.distributed --out build/distributed --processes 2 --process 0
    python -m examples.distributed --out build/distributed --processes 2 --process 1

On other machines, set JAX_COORDINATOR_ADDRESS to HOST:PORT of process 0. On Slurm, leave both
options and the variable out: `srun python -m examples.distributed --out /shared/run1`.
"""

import argparse
import os
import pathlib

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils
from sklearn.datasets import load_digits

import keras_norm
from keras_norm.export import check, export_saved_model

ROWS, UNITS, STEPS, BATCH = 8, 16, 22, 64  # BATCH: samples in a step, all processes together


def join(processes, process):
    """Connect all processes. If a process dies, the other processes end 20 s later."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # between GPUs, JAX uses NCCL
    if processes is not None:
        os.environ.setdefault("JAX_COORDINATOR_ADDRESS", "127.0.0.1:53210")
    jax.distributed.initialize(None, processes, process, heartbeat_timeout_seconds=20)
    keras.utils.set_random_seed(0)  # All processes must draw equal weights and seeds.
    # Each process reads its own samples, so Keras must not divide them again.
    return keras.distribution.DataParallel(auto_shard_dataset=False)


def load():
    """Load the training samples of this process, in complete batches, and the test samples."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16.0).astype("float32").reshape(-1, ROWS, ROWS)
    samples = STEPS * (BATCH // jax.process_count())
    own = np.arange(samples) * jax.process_count() + jax.process_index()
    return x[own], y[own], x[STEPS * BATCH :], y[STEPS * BATCH :]


def build():
    """Build and compile the model."""
    inputs = keras.Input((ROWS, ROWS), name="rows")
    h = keras_norm.BatchNormLSTM(UNITS, max_timesteps=ROWS)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, "softmax", name="digit")(h))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def train(distribution, x, y, epochs, checkpoint):
    """Train from the checkpoint, if there is one; process 0 writes a checkpoint every epoch."""
    multihost_utils.assert_equal(len(x), "The processes have different numbers of samples")
    with distribution.scope():
        model = keras.saving.load_model(checkpoint) if checkpoint.exists() else build()
    for epoch in range(int(model.optimizer.iterations) // STEPS, epochs):
        order = np.random.default_rng(epoch).permutation(len(x))
        with distribution.scope():
            options = {"batch_size": len(x) // STEPS, "initial_epoch": epoch, "epochs": epoch + 1}
            model.fit(x[order], y[order], shuffle=False, verbose=2, **options)
        # Save outside distribution.scope(): inside, process 0 would wait for the other processes.
        if jax.process_index() == 0:
            model.save(checkpoint.with_name("new.keras"))  # a crash here keeps the old checkpoint
            os.replace(checkpoint.with_name("new.keras"), checkpoint)
    multihost_utils.assert_equal(model.get_weights(), "The processes have different weights")
    print(f"All {jax.process_count()} processes have equal weights and moving statistics.")


def main(argv=None):
    """Train together with the other processes; then process 0 exports and checks the model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of all processes")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--processes", type=int, help="number of processes")
    parser.add_argument("--process", type=int, help="index of this process, from 0")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    distribution, checkpoint = join(args.processes, args.process), args.out / "model.keras"
    x, y, x_test, y_test = load()
    train(distribution, x, y, args.epochs, checkpoint)
    if jax.process_index() > 0:
        return 0
    model = keras.saving.load_model(checkpoint)
    saved_model = export_saved_model(model, args.out / "saved_model", overwrite=True)
    report = check(model, saved_model, {"rows": x_test}, labels=y_test)
    print(report.verdict)
    return 0 if report else 1


if __name__ == "__main__":
    raise SystemExit(main())
