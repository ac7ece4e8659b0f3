"""Join a group of processes, and run a program there: a child process of `processes.py`.

`python -m tests.distributed.child PLACE MODULE FUNCTION FOLDER`, where PLACE is a JSON object.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import sys
import traceback
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of this process in its group: the first argument of a program.

    Attributes:
        kind: a key of `processes.BACKENDS`.
        rank: index of the process.
        count: number of processes, or of logical devices in this one process.
        addresses: host and port of each process.
        folder: folder that all processes of the group share.
        strategy: TensorFlow's strategy; None on other backends.
    """

    kind: str
    rank: int
    count: int
    addresses: list[str]
    folder: pathlib.Path
    strategy: Any = None

    def shard(self, x: np.ndarray) -> np.ndarray:
        """Return the rows of this process; the numbers of rows differ by at most one."""
        return np.array_split(x, len(self.addresses))[self.rank]


def join(place: Place) -> Any:
    """Start the runtime of the group, before any operation runs; return TensorFlow's strategy."""
    count, rank = place.count, place.rank
    if place.kind == "multiworker":
        task = {"type": "worker", "index": rank}
        cluster = {"worker": place.addresses}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
        import tensorflow as tf

        return tf.distribute.MultiWorkerMirroredStrategy()
    if place.kind == "mirrored":
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        one = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [one] * count)
        return tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(count)])
    if place.kind == "jax_devices":
        import jax

        jax.config.update("jax_num_cpu_devices", count)
    elif place.kind == "jax":
        import jax

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(place.addresses[0], count, rank)
    elif place.kind == "torch":
        import torch

        torch.set_num_threads(1)
        address = f"tcp://{place.addresses[0]}"
        torch.distributed.init_process_group("gloo", address, world_size=count, rank=rank)
    return None


def main(argv: list[str]) -> None:
    """Run the program, and write its results to RANK.npz."""
    options, module, function, folder = argv
    place = Place(**json.loads(options), folder=pathlib.Path(folder))
    place = dataclasses.replace(place, strategy=join(place))
    program = getattr(importlib.import_module(module), function)
    with np.load(place.folder / "arrays.npz") as arrays:
        results = program(place, **arrays)
    np.savez(place.folder / f"{place.rank}.npz", **results)
    if place.kind == "torch":
        import torch

        torch.distributed.barrier()  # else a process may abort after the other one has ended
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # without the exit hook of JAX, which would wait for the other processes
