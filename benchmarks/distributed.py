"""Compare distributed trainings with the training of one device on the whole batch.

    python -m benchmarks.distributed measure
    python -m benchmarks.distributed measure --only layers rows --groups "PyTorch, 2 ranks"
    python -m benchmarks.distributed table

All groups of processes run on the CPUs of this machine. The reference is TensorFlow on one device.
`measure` updates benchmarks/results_distributed.json, and leaves out groups whose backend is not
installed. `table` prints the tables of docs/guides/distributed.md,
docs/guides/tensorflow_strategies.md and docs/design/collectives.md.
"""

import argparse
import dataclasses
import importlib.util
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import distributed_training, report, results
from benchmarks.distributed_training import Task
from benchmarks.results import Measurement, Results
from benchmarks.tables import Row, Table
from keras_norm.typing import Array
from tests.distributed import processes

FILE = pathlib.Path("benchmarks/results_distributed.json")

Weights = list[dict[str, Array]]  # of each process


@dataclasses.dataclass(frozen=True)
class Group:
    """Processes or logical devices that train together.

    Attributes:
        kind: a key of `processes.BACKENDS`.
        count: number of processes, or of devices.
        model_devices: number of devices over which JAX divides each kernel.
    """

    kind: str
    count: int
    model_devices: int = 1


Groups = Mapping[str, Group]

ONE_DEVICE = Group("mirrored", 1)
JAX_PROCESSES, JAX_DEVICES = "JAX, 2 processes", "JAX, 4 devices"
MODEL_PARALLEL = "JAX, ModelParallel, 2 x 2 devices"
REPLICAS_2, REPLICAS_4 = "MirroredStrategy, 2 replicas", "MirroredStrategy, 4 replicas"
WORKERS, RANKS = "MultiWorkerMirroredStrategy, 2 workers", "PyTorch, 2 ranks"
GROUPS = {
    JAX_PROCESSES: Group("jax", 2),
    JAX_DEVICES: Group("jax_devices", 4),
    MODEL_PARALLEL: Group("jax_devices", 4, model_devices=2),
    REPLICAS_2: Group("mirrored", 2),
    REPLICAS_4: Group("mirrored", 4),
    WORKERS: Group("multiworker", 2),
    RANKS: Group("torch", 2),
}

LN_LSTM, BN_LSTM = "LayerNormLSTM", "BatchNormLSTM"
SYNCHRONIZED = f"{BN_LSTM}, synchronized"
NAMES = (
    LN_LSTM,
    "BatchNormalization",
    "TimestepBatchNormalization",
    BN_LSTM,
    "BatchNormalization, synchronized",
    "TimestepBatchNormalization, synchronized",
    SYNCHRONIZED,
    "keras BatchNormalization, synchronized",
)

KINDS = ("weight", "statistic")
SIZES = (16, 8, 1)  # rows of all replicas in each batch
ROWS = (4, 16, 64)  # rows of each replica
PROCESSES = (1, 2, 4, 8)

# Columns of the tables of layers, with the groups of each column.
COLUMNS: dict[str, dict[str, Sequence[str]]] = {
    "guides/distributed.md": {
        "JAX": (JAX_PROCESSES, JAX_DEVICES, MODEL_PARALLEL),
        "TensorFlow's strategies": (REPLICAS_2, REPLICAS_4, WORKERS),
        "PyTorch ranks": (RANKS,),
    },
    "guides/tensorflow_strategies.md": {
        "2 replicas": (REPLICAS_2,),
        "4 replicas": (REPLICAS_4,),
        "2 workers": (WORKERS,),
    },
}


def run(
    group: Group,
    program: Callable[..., dict[str, Array]],
    seconds: float = 3600.0,
    **arrays: Any,
) -> Weights:
    """Run a program in the processes of a group; return the results of each process."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        return processes.run(group.kind, program, folder, group.count, seconds=seconds, **arrays)


def train(group: Group, task: Task) -> Weights:
    """Train a model with each layer; return the weights of each process after each batch."""
    options = {"model_devices": group.model_devices, **dataclasses.asdict(task)}
    return run(group, distributed_training.train, **options)


def differences(found: Weights, expected: Weights, names: Sequence[str]) -> dict[str, list[float]]:
    """Compare the weights of the processes of a group with one device.

    Returns:
        {"LAYER, KIND": [largest difference in any batch]}, for the layers that ran.
    """
    measured = {}
    for name, kind in itertools.product(names, KINDS):
        keys = [key for key in found[0] if key.startswith(f"{name}/") and key.endswith(kind)]
        pairs = [(each[key], expected[0][key]) for each in found for key in keys]
        if pairs:
            largest = max(float(np.abs(a - b).max()) for a, b in pairs)
            measured[f"{name}, {kind}"] = [float(f"{largest:.3g}")]
    return measured


def measure_layers(groups: Groups) -> Iterator[Measurement]:
    """Compare every layer in every group with one device."""
    expected = train(ONE_DEVICE, Task(NAMES, SIZES))
    for name, group in groups.items():
        # JAX cannot divide a batch of one row.
        sizes = SIZES[:2] if group.kind.startswith("jax") else SIZES
        found = differences(train(group, Task(NAMES, sizes)), expected, NAMES)
        yield Measurement("layers", name, sizes, found, "difference")


def measure_rows(groups: Groups, steps: int = 50) -> Iterator[Measurement]:
    """Compare weights and losses of BN-LSTMs with those of one device, by the rows of a replica."""
    for rows, name in itertools.product(ROWS, (REPLICAS_2, RANKS)):
        if name in groups:
            sizes = (rows * groups[name].count,) * steps
            task = Task((BN_LSTM, SYNCHRONIZED), sizes, timesteps=20, units=16, shortest=20)
            found, expected = (train(group, task) for group in (groups[name], ONE_DEVICE))
            values = differences(found, expected, task.names)
            own, one = (task.loss(each[0], BN_LSTM) for each in (found, expected))
            values["loss / loss of one device"] = [float(f"{own / one:.4g}")]
            yield Measurement("rows", name, (rows,), values, "difference")


def measure_costs(groups: Groups, updates: int = 10) -> Iterator[Measurement]:
    """Measure CPU time of all processes and bytes on the loopback device, for an update on JAX."""
    if JAX_PROCESSES not in groups:
        return
    names, sizes = (LN_LSTM, BN_LSTM), (64,) * (updates + 2)
    task = Task(names, sizes, timesteps=20, units=32, shortest=20)
    for count in PROCESSES:
        found = run(
            Group("jax", count),
            distributed_training.measure_costs,
            environment={"XLA_FLAGS": ""},  # with the optimizer of XLA
            **dataclasses.asdict(task),
        )
        seconds = {name: [float(sum(each[name][0] for each in found))] for name in names}
        received = {name: [float(found[0][name][1])] for name in names}
        yield Measurement("costs", "CPU time", (count,), seconds)
        yield Measurement("costs", "loopback", (count,), received, "bytes")


SUITES = {"layers": measure_layers, "rows": measure_rows, "costs": measure_costs}


def tables(found: Results) -> list[Table]:
    """Create the tables of the pages; the title of each is its page."""
    layers = [Table(page, ("layer", *c), _layer_rows(found, c)) for page, c in COLUMNS.items()]
    differences = ("rows of a replica", "weights", "statistics", "weights, synchronized")
    costs = ("processes", "LN-LSTM, ms", "BN-LSTM, ms", "LN-LSTM, kB", "BN-LSTM, kB")
    page = "design/collectives.md"
    return [
        *layers,
        Table(page, differences, _replica_rows(found)),
        Table(page, costs, _cost_rows(found)),
    ]


def _layer_rows(found: Results, columns: Mapping[str, Sequence[str]]) -> tuple[Row, ...]:
    """Return the largest differences of weights and statistics, for each layer and column."""
    rows = []
    for name in NAMES:
        cells = []
        for groups in columns.values():
            measured = [m.values for group in groups for m in found.of("layers", group)]
            values = [v.get(f"{name}, {kind}", []) for v in measured for kind in KINDS]
            largest = max(itertools.chain(*values), default=None)
            refused = "raises" if measured else "unmeasured"
            cells.append(refused if largest is None else _format(largest))
        rows.append((f"`{name}`", *cells))
    return tuple(rows)


def _replica_rows(found: Results) -> tuple[Row, ...]:
    """Return the largest differences over the groups, for each number of rows of a replica."""
    keys = (f"{BN_LSTM}, weight", f"{BN_LSTM}, statistic", f"{SYNCHRONIZED}, weight")
    rows = []
    for size in ROWS:
        values = [m.values for m in found.of("rows") if m.shape == (size,)]
        cells = (max(itertools.chain(*(v.get(key, []) for v in values))) for key in keys)
        rows.append((str(size), *map(_format, cells)))
    return tuple(rows)


def _cost_rows(found: Results) -> tuple[Row, ...]:
    """Return milliseconds and kilobytes of each layer, for each number of processes."""
    cells: dict[int, list[str]] = {}
    for mode, factor in (("CPU time", 1e3), ("loopback", 1e-3)):
        for m in found.of("costs", mode):
            cells.setdefault(m.shape[0], []).extend(
                _format(factor * m.median(name)) for name in (LN_LSTM, BN_LSTM)
            )
    return tuple((str(count), *row) for count, row in cells.items())


def _format(value: float) -> str:
    """Format a number with two significant digits."""
    return f"{float(f'{value:.2g}'):,g}".replace("e-0", "e-")


def measure(groups: Groups, suites: Sequence[str], path: pathlib.Path = FILE) -> None:
    """Update the file after each measurement."""
    found = results.begin({})
    if path.exists():
        found = dataclasses.replace(found, measurements=Results.load(path).measurements)
    for suite in suites:
        for new in SUITES[suite](groups):
            print(f"{suite}, {new.mode}, {new.shape}", flush=True)
            kept = [
                m
                for m in found.measurements
                if (m.suite, m.mode, m.shape) != (suite, new.mode, new.shape)
            ]
            found = dataclasses.replace(found, measurements=(*kept, new))
            found.save(path)


def main(argv: list[str] | None = None) -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed", description=__doc__.partition("\n")[0]
    )
    commands = parser.add_subparsers(required=True, dest="command")
    measuring = commands.add_parser("measure", help="measure, and update the file")
    measuring.add_argument(
        "--only", nargs="+", choices=SUITES, default=list(SUITES), metavar="SUITE"
    )
    measuring.add_argument(
        "--groups", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP"
    )
    commands.add_parser("table", help="print the tables")
    args = parser.parse_args(argv)
    if args.command == "measure":
        names = [
            n for n in args.groups if importlib.util.find_spec(processes.BACKENDS[GROUPS[n].kind])
        ]
        measure({name: GROUPS[name] for name in names}, args.only)
        return
    found = Results.load(FILE)
    print(results.describe(found.machine), found.settings["date"])
    for table in tables(found):
        print(f"\n{table.title}\n", report.markdown_rows(table), sep="\n")


if __name__ == "__main__":
    main()
