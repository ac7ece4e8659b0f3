"""The tables that results make, as text that `report` shows on terminals and in Markdown."""

import dataclasses
from collections.abc import Iterator

from benchmarks import settings
from benchmarks.goals import REACHED, UNREACHED, goals, lstm_means
from benchmarks.results import Measurement, Results
from benchmarks.settings import FLOOR, INFERENCE, LN_LSTM, REFERENCES, TRAINING
from benchmarks.timing import Spread, growth_exponent, linear_fit

Row = tuple[str, ...]

RATIOS = {reference: f"/ {reference}" for reference in REFERENCES}
NOTE = (
    "Medians of the rounds; ratios of the same round, ± half the distance of their quartiles. "
    "LSTM: keras.layers.LSTM, plain or with jit_compile, whichever is faster. RNN(cell): "
    "keras.layers.RNN of a cell with three LayerNormalization. GEMMs: the matrix products of the "
    "LSTM alone, as fast as we can run them."
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A title, columns and rows of text; a row of one cell heads those below it."""

    title: str
    columns: Row
    rows: tuple[Row, ...]
    note: str = ""


def terminal_tables(results: Results) -> Iterator[Table]:
    """All that was measured, variant by variant, and the goals."""
    yield recurrent(results, TRAINING)
    yield recurrent(results, INFERENCE)
    yield from _others(results)
    yield goal_table(results)


def readme_tables(results: Results) -> Iterator[Table]:
    """LN-LSTM on every shape, its siblings on average, and the rest."""
    yield by_shape(results)
    yield siblings(results)
    yield from _others(results)
    yield goal_table(results)


def _others(results: Results) -> Iterator[Table]:
    yield growth(results)
    yield fit(results)
    yield layers(results)
    yield tflite(results)
    yield memory(results)


def recurrent(results: Results, mode: str) -> Table:
    """Every variant on every shape, in one mode; of the products alone, the fastest."""
    rows: list[Row] = []
    for measurement in results.of("recurrent", mode):
        rows.append((_shape(measurement),))
        floor = measurement.fastest(REFERENCES[FLOOR])
        for name in measurement.values:
            if name in REFERENCES[FLOOR] and name != floor:
                continue
            ratios = [_ratio(measurement, name, REFERENCES[r]) for r in RATIOS]
            time = duration(measurement.median(name))
            rows.append((name, time, duration(measurement.first[name]), *ratios))
    columns = ("(B, T, D, H)", "median", "first", *RATIOS.values())
    note = ""
    if mode == INFERENCE:  # it serves both modes
        note = (
            f"{NOTE} First: the first call, which traces and compiles. The unrolled form is "
            f"measured up to T = {results.settings['longest_unrolled']}."
        )
    return Table(f"Recurrent layers, {mode}", columns, tuple(rows), note)


def by_shape(results: Results) -> Table:
    """LN-LSTM against the references, a row for every shape, and geometric means."""
    rows: list[Row] = []
    for mode in (TRAINING, INFERENCE):
        measured = results.of("recurrent", mode)
        if measured:
            rows.append((mode,))
        for measurement in measured:
            ratios = [_ratio(measurement, LN_LSTM, REFERENCES[r]) for r in RATIOS]
            rows.append((_shape(measurement), duration(measurement.median(LN_LSTM)), *ratios))
    columns = ("(B, T, D, H)", "LN-LSTM", *RATIOS.values())
    return Table("LN-LSTM's time", columns, tuple(rows), NOTE)


def siblings(results: Results) -> Table:
    """Geometric means over the training shapes of every variant's time over the LSTM's."""
    means = {mode: lstm_means(results, mode) for mode in (TRAINING, INFERENCE)}
    rows = tuple(
        (name, *(f"{means[mode][name]:.2f}" for mode in means))
        for name in means[TRAINING]
        if name in means[INFERENCE]
    )
    columns = ("geometric mean", "training / LSTM", "inference / LSTM")
    return Table("Every recurrent layer", columns, rows)


def growth(results: Results) -> Table:
    """Times over length."""
    names = (LN_LSTM, settings.KERAS_LSTM)
    rows: list[Row] = []
    notes = []
    for mode in (TRAINING, INFERENCE):
        measured = results.of("growth", mode)
        if not measured:
            continue
        lengths = [m.shape[1] for m in measured]
        times = [m.median(LN_LSTM) for m in measured]
        start, step = linear_fit(lengths, times)
        notes.append(
            f"{mode}: LN-LSTM grows as T^{growth_exponent(lengths, times):.2f}, "
            f"{duration(start)} + {duration(step)} a timestep."
        )
        rows.append((mode,))
        for m in measured:
            rows.append((f"T = {m.shape[1]}", *(duration(m.median(name)) for name in names)))
    title = "Growth with the length T"
    if rows:
        title += " at (B, D, H) = ({0}, {2}, {3})".format(*measured[0].shape)
    return Table(title, ("", *names), tuple(rows), " ".join(notes))


def fit(results: Results) -> Table:
    """Epochs of `model.fit`."""
    rows: list[Row] = []
    for m in results.of("fit"):
        rows.append((_shape(m),))
        for name in m.values:
            ratio = _ratio(m, name, (settings.KERAS_LSTM,))
            rows.append((name, duration(m.median(name)), ratio, duration(m.first[name])))
    columns = ("(B, T, D, H)", "an epoch", "/ keras LSTM", "first epoch")
    samples = results.settings["fit_samples"]
    note = f"{samples} sequences in NumPy arrays and Keras' defaults; the first epoch compiles."
    return Table("model.fit", columns, tuple(rows), note)


def layers(results: Results) -> Table:
    """Normalization layers against Keras' own."""
    rows: list[Row] = []
    measured = {mode: results.of("layers", mode) for mode in (TRAINING, INFERENCE)}
    for both in zip(*measured.values(), strict=True):
        rows.append((_shape(both[0]),))
        for name, peer in settings.PEERS.items():
            if name in both[0].values:
                cells = [
                    cell
                    for m in both
                    for cell in (duration(m.median(name)), _ratio(m, name, (f"keras {peer}",)))
                ]
                rows.append((name, *cells))
    columns = ("", "training", "/ Keras", "inference", "/ Keras")
    note = "TimestepBatchNormalization is held against Keras' BatchNormalization."
    return Table("Normalization layers", columns, tuple(rows), note)


def tflite(results: Results) -> Table:
    """Latency and size of TFLite files."""
    rows: list[Row] = []
    measured = [results.of("tflite", mode) for mode in ("1 thread", "2 threads", "file")]
    for one, two, size in zip(*measured, strict=True):
        rows.append((_shape(one),))
        for name in one.values:
            cells = [
                cell
                for m in (one, two)
                for cell in (duration(m.median(name)), _ratio(m, name, (settings.UNROLLED,)))
            ]
            rows.append((name, *cells, f"{size.median(name) / 1e3:.0f} kB"))
    columns = ("(B, T, D, H)", "1 thread", "/ unrolled", "2 threads", "/ unrolled", "file")
    note = "Our files take any batch and length; Keras' and RNN(cell)'s have theirs fixed."
    return Table("TFLite, inference", columns, tuple(rows), note)


def memory(results: Results) -> Table:
    """Peak memory of a training step."""
    rows: list[Row] = []
    for m in results.of("memory"):
        rows.append((_shape(m),))
        for name in m.values:
            ratio = m.ratio(name, (settings.KERAS_LSTM,))
            share = "" if ratio is None else f"{ratio.median:.2f}"
            rows.append((name, f"{m.median(name) / 2**20:.0f} MiB", share))
    note = "Resident memory at its peak, beyond that of the built layer and its data."
    return Table("Memory of a training step", ("", "peak", "/ keras LSTM"), tuple(rows), note)


def goal_table(results: Results) -> Table:
    """What was to be reached, and what was."""
    rows = tuple(
        (g.what, f"{g.measured:.2f}", f"{g.at_most:.2f}", REACHED if g.reached else UNREACHED)
        for g in goals(results)
    )
    shapes = len(results.of("recurrent", TRAINING))
    note = f"Geometric means are over the {shapes} training shapes." if shapes else ""
    return Table("Goals", ("time / time", "is", "at most", ""), rows, note)


def duration(seconds: float) -> str:
    """Three digits, in seconds, milliseconds or microseconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        value = seconds * scale
        if abs(value) >= 0.9995 or unit == "µs":
            digits = max(0, 2 - len(str(int(abs(value)))) + 1)
            return f"{value:.{digits}f} {unit}"
    raise AssertionError


def _shape(measurement: Measurement) -> str:
    return str(tuple(measurement.shape))


def _ratio(measurement: Measurement, name: str, reference: Row) -> str:
    if name == measurement.fastest(reference):
        return "1"
    spread: Spread | None = measurement.ratio(name, reference)
    return "" if spread is None else str(spread)
