"""Training under TensorFlow's distribution strategies, each in its own processes."""

import ast
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]

WORKER = """
import numpy as np, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras, keras_norm

def trained(x, run):
    keras.utils.set_random_seed(0)
    recurrent = keras_norm.LayerNormSimpleRNN(4)
    model = keras.Sequential([keras.Input((3, 3)), recurrent, keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True) ** 2) / 8.0
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    compiled = tf.function(lambda x: run(step, x))
    for _ in range(3):
        compiled(x)
    return [tf.convert_to_tensor(v).numpy() for v in model.trainable_variables]

x = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
half = np.split(x, 2)[strategy.cluster_resolver.task_id]
with strategy.scope():
    together = trained(half, lambda step, x: strategy.run(step, (x,)))
alone = trained(x, lambda step, x: step(x))
difference = max(float(np.abs(a - b).max()) for a, b in zip(together, alone, strict=True))
print([strategy.num_replicas_in_sync, difference])
"""

REPLICAS = """
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras, keras_norm
from tests import oracles

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = keras_norm.BatchNormSimpleRNN(4, max_timesteps=3, return_sequences=True)
    rnn = keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(4, max_timesteps=3))
    model = keras.Sequential([keras.Input((3, 3)), layer, rnn, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
model.fit(x, np.zeros((8, 1)), batch_size=4, verbose=0)
counts = [w for w in model.non_trainable_weights if w.path.endswith("update_count")]

# Synchronized statistics and gradients are those of the global batch.
rng = np.random.default_rng(0)
x = rng.normal([[[[1.0]]], [[[4.0]]]], 2.0, size=(2, 3, 4, 2))
weights = rng.normal(size=x.shape)
masks = np.array([[[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], [[1, 0, 0, 0]] * 3], bool)
one_empty_replica = masks & np.array([True, False])[:, None, None]

def spread(values):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )

for mask in (np.ones_like(masks), masks, one_empty_replica):
    with strategy.scope():
        norm = keras_norm.BatchNormalization(momentum=0.0, synchronized=True, dtype="float64")
        norm.build((None, 4, 2))

    def run(x, weights, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = norm(x, training=True, mask=mask)
            loss = tf.reduce_sum(weights * y)
        return y, tape.gradient(loss, x)

    now = np.where(mask[..., None], weights, 0.0)
    args = spread(x), spread(now), spread(mask)
    y, dx = (
        np.concatenate(strategy.experimental_local_results(result))
        for result in tf.function(strategy.run)(run, args)
    )
    whole, now, mask = map(np.concatenate, (x, now, mask))
    expected, mean, variance = oracles.batch_norm_train(whole, mask=mask)
    gradient = oracles.gradient(
        lambda x: (now * oracles.batch_norm_train(x, mask=mask)[0]).sum(), whole
    )
    for a, e in [(y[mask], expected[mask]), (dx, gradient), (norm.moving_mean, mean),
                 (norm.moving_variance, variance)]:
        np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-9)
print([tf.convert_to_tensor(count).numpy().tolist() for count in counts])
"""


def start(script, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_result(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return ast.literal_eval(out.splitlines()[-1])


def test_two_workers_with_a_custom_training_loop_train_as_one_process():
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    configs = [json.dumps({"cluster": {"worker": workers}, "task": task}) for task in tasks]
    processes = [start(WORKER, TF_CONFIG=config) for config in configs]
    for process in processes:
        replicas, difference = read_result(process)
        assert replicas == 2
        assert difference < 1e-5


def test_two_replicas_update_the_statistics_of_every_timestep_and_synchronize_those_of_the_batch():
    counts = read_result(start(REPLICAS))
    assert len(counts) == 4
    # Row 0 of recurrent_norm may have no update, because h is zero at the first timestep.
    assert all(row == 2 for count in counts for row in count[1:])
