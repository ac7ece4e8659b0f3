"""Moving statistics of several replicas equal those of one device with the whole batch."""

import os
import warnings

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.ops.replicas import all_reduce, max_over_replicas
from tests.distributed import processes, training
from tests.distributed.child import Place

RNG = np.random.default_rng(0)
TIME = 6
# The last batch of one row leaves replicas without rows. JAX trains on the first batch, because
# every batch is compiled there; tests/examples/test_distributed.py trains for several epochs.
SIZES = np.array([8, 8, 1])
LENGTHS = RNG.integers(1, TIME + 1, SIZES.sum())
X = RNG.normal(3.0, 2.0, (SIZES.sum(), TIME, training.FEATURES))
X = np.where(np.arange(TIME)[:, None] < LENGTHS[:, None, None], X, 0.0)
Y = RNG.normal(size=(len(X), 1))
GROUPS = {"mirrored": 2, "multiworker": 2, "jax": 2, "torch": 2}
# Models whose weights equal those of one device, because the replicas normalize as one device does.
EQUAL = {"layer", "ghosts", *filter(training.is_synchronized, training.MODELS)}


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    place = Place("one", 0, 1, [""], tmp_path_factory.mktemp("one"))
    return training.train(place, X, Y, SIZES)


@pytest.fixture(scope="module", params=GROUPS)
def group(request, tmp_path_factory):
    """Train in a group of processes; return the folder of the files, and the results."""
    kind = request.param
    sizes = SIZES[:1] if kind == "jax" else SIZES
    arrays = {"x": X[: sizes.sum()], "y": Y[: sizes.sum()], "sizes": sizes}
    folder = tmp_path_factory.mktemp(kind)
    with processes.Group(kind, training.train, folder, GROUPS[kind], **arrays) as started:
        return kind, started.folder, started.results(400)


def is_statistic(key):
    return "moving_" in key or "renorm_" in key or "update_count" in key


def assert_equal(results, expected, keys):
    assert keys
    for key in keys:
        for result in results:
            np.testing.assert_allclose(result[key][:1], expected[key], 1e-5, 3e-6, err_msg=key)


def test_all_replicas_have_equal_statistics_and_weights(group):
    _, _, results = group
    for key, copies in results[0].items():
        for result in results:
            assert (result[key] == copies[0]).all(), key


def test_statistics_of_inputs_are_those_of_the_global_batch(group, one_device):
    _, _, results = group
    names = ("batch", "ghosts", "renorm", "timestep")
    keys = [k for k in results[0] if k.split("/")[0] in names and is_statistic(k)]
    assert_equal(results, one_device, keys)


@pytest.mark.parametrize("name", ["lstm", "loop", "gru"])
def test_a_recurrence_has_the_kernel_statistics_of_the_global_batch(group, one_device, name):
    """Before the first update of the weights, W x is equal on one device and on all replicas."""
    _, _, results = group
    keys = [k for k in results[0] if k.startswith(f"{name}/0/") and "kernel_norm/moving" in k]
    assert_equal(results, one_device, keys)


def test_weights_equal_those_of_one_device_if_all_normalize_with_the_same_statistics(
    group, one_device
):
    kind, _, results = group
    names = training.MODELS if kind == "jax" else EQUAL
    assert_equal(results, one_device, [k for k in results[0] if k.split("/")[0] in names])


def test_the_saved_file_has_the_weights_of_every_replica(group):
    _, folder, results = group
    last = max(int(key.split("/")[1]) for key in results[0])
    for name in ("timestep", "lstm"):
        model = keras.saving.load_model(folder / f"{name}.keras")
        trained = [w for key, w in results[-1].items() if key.startswith(f"{name}/{last}/")]
        for weight, copies in zip(model.weights, trained, strict=True):
            for copy in copies:
                np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), copy)


@pytest.mark.parametrize("name", training.EVALUATED)
def test_a_group_evaluates_as_the_saved_file_in_one_process(group, name):
    _, folder, results = group
    (key,) = [key for key in results[0] if key.startswith("loss/") and key.endswith(f"/{name}")]
    outputs = keras.saving.load_model(folder / f"{name}.keras").predict(X[:8], verbose=0)
    expected = np.mean((outputs - Y[:8]) ** 2)
    for result in results:
        np.testing.assert_allclose(result[key], [expected], rtol=1e-5)


# What a group cannot do ---------------------------------------------------------------------------


def message_of(function, *arguments):
    """Return the message of the error or of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            function(*arguments)
        except (RuntimeError, ValueError) as error:
            return keras_norm.keras_internals.reason(error)
    return "".join({str(each.message) for each in caught if "statistics" in str(each.message)})


def cell_layer(**options):
    return keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(4, 3, **options))


class CellWithNorm(keras.layers.SimpleRNNCell):
    """A cell of a user, which calls a batch norm in the loop of keras.layers.RNN."""

    def __init__(self, units, **options):
        super().__init__(units)
        self.norm = keras_norm.BatchNormalization(name="own_norm", **options)

    def build(self, input_shape):
        super().build(input_shape)
        self.norm.build((None, self.units))

    def call(self, inputs, states, training=False):
        h, states = super().call(inputs, states, training=training)
        return self.norm(h, training=training), states


def own_layer(**options):
    return keras.layers.RNN(CellWithNorm(4, **options))


def use_strategy(place, x, y):
    """Use `fit` and `evaluate` of Keras, cells, and synchronized recurrences with a strategy."""

    def fit(layer):
        with place.strategy.scope():
            model = keras.Sequential([keras.Input(x.shape[1:]), layer(), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        model.fit(x, y, batch_size=8, verbose=0)
        return model

    model = fit(lambda: keras_norm.BatchNormLSTM(4, 3))
    model.save(place.folder / "model.keras")
    with place.strategy.scope():
        norm = keras_norm.BatchNormalization(momentum=0.0)
        norm(x, training=True)  # in the cross-replica context
    return {
        "loss": model.evaluate(x, y, verbose=0),
        "cross_replica": norm.moving_mean.numpy(),
        "cell": message_of(fit, cell_layer),
        "own_cell": message_of(fit, own_layer),
        "own_synchronized": message_of(fit, lambda: own_layer(synchronized=True)),
        "synchronized": message_of(fit, lambda: keras_norm.BatchNormGRU(4, 3, synchronized=True)),
    }


def use_ranks(place, x):
    """Call layers with different lengths on each rank, and cells; then lose the last rank."""
    import torch

    x = torch.tensor(x[:, : TIME - place.rank])
    lstm = keras_norm.BatchNormLSTM(4, 3, synchronized=True, name="lstm")
    norm = keras_norm.TimestepBatchNormalization(3, synchronized=True, name="norm")
    found = {"norm": message_of(lambda: norm(x, training=True))}
    found["lstm"] = message_of(lambda: lstm(x, training=True))
    found["cell"] = message_of(lambda: cell_layer()(x, training=True))
    found["synchronized"] = message_of(lambda: cell_layer(synchronized=True)(x, training=True))
    found["own_cell"] = message_of(lambda: own_layer()(x, training=True))
    found["own_synchronized"] = message_of(lambda: own_layer(synchronized=True)(x, training=True))
    norm = keras_norm.BatchNormalization(name="own_norm")
    found["distributed"] = message_of(lambda: keras.layers.TimeDistributed(norm)(x, training=True))
    ones = torch.ones(2)
    found["sum"], found["added"] = all_reduce(ones).numpy(), ones.numpy()
    with keras.device("meta"):  # a group of NCCL reduces no tensor of the CPU
        found["device"] = message_of(max_over_replicas, TIME)
    if place.rank == place.count - 1:
        os._exit(0)
    norm = keras_norm.BatchNormalization()
    found["lost"] = message_of(lambda: norm(x, training=True))
    return found


def test_a_strategy_evaluates_as_the_saved_file_and_names_its_limits(tmp_path):
    x, y = X[:16].astype("float32"), Y[:16]
    group = processes.Group("mirrored", use_strategy, tmp_path, 2, x=x, y=y)
    with group:
        (found,) = group.results(150)
    model = keras.saving.load_model(group.folder / "model.keras")
    np.testing.assert_allclose(found["loss"], model.evaluate(x, y, verbose=0), rtol=1e-6)
    np.testing.assert_allclose(found["cross_replica"], x.mean(axis=(0, 1)), rtol=1e-5)
    for cell in ("cell", "own_cell"):
        assert "called inside a loop" in str(found[cell])
        assert "BatchNormLSTM" in str(found[cell])
    assert "Layer 'own_norm' is called" in str(found["own_cell"])
    assert "Layer 'own_norm' has synchronized=True" in str(found["own_synchronized"])
    assert "BatchNormGRU 'batch_norm_gru' has synchronized=True" in str(found["synchronized"])
    assert "KERAS_BACKEND=jax" in str(found["synchronized"])


def test_ranks_with_other_lengths_cells_and_a_lost_rank_give_one_line(tmp_path):
    group = processes.Group("torch", use_ranks, tmp_path, 2, x=X.astype("float32"))
    with group:
        group.wait(0, 60)  # raises at the end, because rank 1 is lost
    found = {name: str(text) for name, text in np.load(group.folder / "0.npz").items()}
    for name in ("lstm", "norm"):
        assert f"Layer {name!r} has synchronized=True" in found[name]
        assert "6 timesteps, and 5 to 6 on all ranks" in found[name]
    assert "BatchNormLSTM" in found["cell"]
    assert "BatchNormLSTM" in found["synchronized"]
    for name in ("own_cell", "distributed"):
        assert "Layer 'own_norm' is called inside a loop" in found[name]
    assert "Layer 'own_norm' has synchronized=True" in found["own_synchronized"]
    assert (found["sum"], found["added"]) == ("[2. 2.]", "[1. 1.]")
    assert "meta tensors" in found["device"]
    assert found["lost"].startswith("Rank 0 could not add up")
    assert "over the 2 ranks" in found["lost"]
    assert "Rank 1 has ended" in found["lost"]
    assert "\n" not in found["lost"]
    assert ".cc" not in found["lost"]
    assert "[127.0.0.1]" in found["lost"]
    assert "typically" not in found["lost"]
