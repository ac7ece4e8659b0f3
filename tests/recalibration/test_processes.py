"""Each process recalibrates with its rows, and all have the statistics of all rows."""

import os
import pathlib
import re
import sys

import numpy as np
import pytest

from tests.distributed import processes

pytestmark = pytest.mark.slow

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "recalibrate_parts.md"
GATHERED_BY = {"jax": "process_allgather", "torch": "all_gather_object"}  # in the guide
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, (48, 4, 3))
X[np.arange(4) >= RNG.integers(1, 5, 48)[:, None]] = 0.0
BATCH = 8  # divides the rows of each process, so the batches are those of one process


def build_model(place):
    """Build a stack of batch norms in the strategy of the process, and also without it."""
    import contextlib

    import keras

    import keras_norm

    keras.utils.set_random_seed(0)
    with place.strategy.scope() if place.strategy else contextlib.nullcontext():
        inputs = keras.Input((None, 3))
        x = keras.layers.Masking()(inputs)
        x = keras_norm.TimestepBatchNormalization(4)(x)
        x = keras_norm.BatchNormSimpleRNN(2, max_timesteps=4)(x)
        x = keras_norm.BatchNormalization(synchronized=place.kind == "mirrored")(x)
        return keras.Model(inputs, keras.layers.BatchNormalization()(x))


def statistics_of(model):
    import keras

    weights = map(keras.ops.convert_to_numpy, model.non_trainable_weights)
    return np.concatenate([np.ravel(weight).astype("float64") for weight in weights])


def recalibrate_by_guide(place, x):
    """Run the code of the guide, which gathers the statistics of all processes."""
    import keras_norm

    blocks = PYTHON.findall(PAGE.read_text("utf-8"))
    (code,) = (block for block in blocks if GATHERED_BY[place.kind] in block)
    rows, model = place.shard(x), build_model(place)
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    names = {"rows_of_this_process": batches, "rows_of_this_rank": batches}
    names |= {"np": np, "torch": sys.modules.get("torch"), "model": model}
    exec(code, {**vars(keras_norm), **names})
    return model


def recalibrated(place, x):
    """Recalibrate with the rows of this process, and collect all rows in this process alone.

    Then the last process has NaN, and then no process has rows.
    """
    import keras

    import keras_norm

    if place.kind.startswith("jax"):
        data_parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(data_parallel)
    # A process may have no rows.
    parts = {"halves": place.shard(x), "one part": x if place.rank == 0 else x[:0]}
    results = {}
    for name, by_layer in (("halves", False), ("halves", True), ("one part", False)):
        model = build_model(place)
        options = {"batch_size": BATCH, "layer_by_layer": by_layer}
        batches = keras_norm.recalibrate(model, parts[name], **options)
        results[f"{name}, by layer: {by_layer}"] = np.append(statistics_of(model), batches)
    alone = build_model(place)
    keras_norm.assign_statistics(alone, keras_norm.collect_statistics(alone, x, batch_size=BATCH))
    if place.kind in GATHERED_BY:
        results["by the code of the guide, by layer: False"] = np.append(
            statistics_of(recalibrate_by_guide(place, x)), len(x) / BATCH
        )
    results["expected"] = np.append(statistics_of(alone), len(x) / BATCH)
    before = statistics_of(model)
    frozen = build_model(place)
    frozen.trainable = place.rank != len(place.addresses) - 1
    with pytest.raises(ValueError, match="are frozen") as error:
        keras_norm.recalibrate(frozen, x)
    results["frozen"] = str(error.value)
    for name, part in (
        ("NaN", parts["halves"] * (np.nan if place.rank == len(place.addresses) - 1 else 1.0)),
        ("no rows", x[:0]),
    ):
        with pytest.raises(ValueError, match=r"statistics|samples") as error:
            keras_norm.recalibrate(model, part)
        results[name] = str(error.value)
    if len(place.addresses) > 1:
        with pytest.raises(ValueError, match="different values of layer_by_layer"):
            keras_norm.recalibrate(model, x, layer_by_layer=place.rank == 0)
    np.testing.assert_array_equal(statistics_of(model), before)
    return results


@pytest.mark.parametrize("kind", ["multiworker", "mirrored", "jax", "torch"])
def test_all_processes_have_the_statistics_of_all_rows(kind, tmp_path):
    results = processes.run(kind, recalibrated, tmp_path, x=X)
    last = len(results) - 1
    for rank, found in enumerate(results):
        by_layer = found["halves, by layer: True"]
        for name, value in found.items():
            if "by layer" in name:
                np.testing.assert_array_equal(value, results[0][name])
                expected = by_layer if name.endswith("True") else found["expected"]
                np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)
        sender = "" if rank == last else f"Process {last} could not collect its statistics: "
        assert str(found["NaN"]).startswith(f"{sender}The statistics of layer 'timestep")
        assert str(found["frozen"]).startswith(f"{sender}All batch normalizations of model")
        assert str(found["no rows"]).startswith("The data contain no samples")


def lost(place, x):
    """Recalibrate; process 1 ends while it reads its rows."""
    import keras_norm

    def batches():
        yield x
        if place.rank == 1:
            os._exit(0)  # without waiting for the other process

    model = build_model(place)
    before = statistics_of(model)
    with pytest.raises(RuntimeError, match="a process has ended, or did not call recalibrate"):
        keras_norm.recalibrate(model, batches())
    np.testing.assert_array_equal(statistics_of(model), before)
    os._exit(0)


@pytest.mark.parametrize("kind", ["multiworker", "jax", "torch"])
def test_a_process_that_ends_is_reported(kind, tmp_path):
    with processes.Group(kind, lost, tmp_path, x=X) as group:
        group.wait_for_all(seconds=60.0)
