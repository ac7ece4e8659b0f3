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
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    layer = keras_norm.BatchNormSimpleRNN(4, max_timesteps=3, return_sequences=True)
    rnn = keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(4, max_timesteps=3))
    model = keras.Sequential([keras.Input((3, 3)), layer, rnn, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
model.fit(x, np.zeros((8, 1)), batch_size=4, verbose=0)
counts = [w for w in model.non_trainable_weights if w.path.endswith("update_count")]
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


def test_fit_on_two_replicas_updates_the_statistics_of_every_timestep():
    counts = read_result(start(REPLICAS))
    assert len(counts) == 4
    # Row 0 of recurrent_norm may have no update, because h is zero at the first timestep.
    assert all(row == 2 for count in counts for row in count[1:])
