"""On two replicas of TensorFlow, synchronized statistics and gradients are those of all rows."""

import keras
import numpy as np
import pytest

import keras_norm
from tests import oracles
from tests.distributed import processes

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
# The first axis is the replica. A mask of the second replica leaves it without rows.
X = RNG.normal([[[[1.0]]], [[[4.0]]]], 2.0, size=(2, 3, 4, 2))
WEIGHTS = RNG.normal(size=X.shape)
ROWS = [[[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], [[1, 0, 0, 0]] * 3]
MASKS = {
    "none": np.ones((2, 3, 4), bool),
    "masks": np.array(ROWS, bool),
    "one": np.array(ROWS, bool) & [[[True]], [[False]]],
}


def count_updates(strategy):
    """Train cells and layers with `fit`; return the number of updates of each row."""
    with strategy.scope():
        layer = keras_norm.BatchNormSimpleRNN(4, max_timesteps=3, return_sequences=True)
        rnn = keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(4, max_timesteps=3))
        model = keras.Sequential([keras.Input((3, 3)), layer, rnn, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
    model.fit(x, np.zeros((8, 1)), batch_size=4, verbose=0)
    weights = model.non_trainable_weights
    counts = [w for w in weights if w.path.endswith("update_count")]
    return [keras.ops.convert_to_numpy(count) for count in counts]


def train_replicas(place):
    """Return y, dx and the statistics of a synchronized norm, and the counts of `fit`."""
    import tensorflow as tf

    def spread(values):
        return place.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(values[context.replica_id_in_sync_group])
        )

    found = {"counts": count_updates(place.strategy)}
    for name, mask in MASKS.items():
        with place.strategy.scope():
            norm = keras_norm.BatchNormalization(momentum=0.0, synchronized=True, dtype="float64")
            norm.build((None, 4, 2))

        def run(x, weights, mask, norm=norm):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = norm(x, training=True, mask=mask)
                loss = tf.reduce_sum(weights * y)
            return y, tape.gradient(loss, x)

        args = spread(X), spread(np.where(mask[..., None], WEIGHTS, 0.0)), spread(mask)
        for key, parts in zip(("y", "dx"), tf.function(place.strategy.run)(run, args), strict=True):
            parts = place.strategy.experimental_local_results(parts)
            found[f"{name}/{key}"] = np.concatenate(parts)
        found[f"{name}/mean"] = norm.moving_mean.numpy()
        found[f"{name}/variance"] = norm.moving_variance.numpy()
    return found


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    return processes.run("mirrored", train_replicas, tmp_path_factory.mktemp("replicas"))[0]


def test_every_replica_updates_the_statistics_of_every_timestep(replicas):
    assert replicas["counts"].shape == (4, 3)
    # Row 0 of recurrent_norm may have no update, because h is zero at the first timestep.
    assert (replicas["counts"][:, 1:] == 2).all()


@pytest.mark.parametrize("name", MASKS)
def test_a_synchronized_norm_equals_the_oracle_on_the_rows_of_both_replicas(replicas, name):
    x, mask = np.concatenate(X), np.concatenate(MASKS[name])
    weights = np.where(mask[..., None], np.concatenate(WEIGHTS), 0.0)
    y, mean, variance = oracles.batch_norm_train(x, mask=mask)
    dx = oracles.gradient(lambda x: (weights * oracles.batch_norm_train(x, mask=mask)[0]).sum(), x)
    found = {key: replicas[f"{name}/{key}"] for key in ("y", "dx", "mean", "variance")}
    for key, expected in {"dx": dx, "mean": mean, "variance": variance}.items():
        np.testing.assert_allclose(found[key], expected, rtol=1e-9, atol=1e-9, err_msg=key)
    np.testing.assert_allclose(found["y"][mask], y[mask], rtol=1e-9, atol=1e-9)
