"""The tables that results make, as text that `report` shows on terminals and in Markdown."""

import dataclasses
from collections.abc import Iterator

from benchmarks import settings
from benchmarks.goals import REACHED, UNREACHED, goals
from benchmarks.results import Measurement, Results
from benchmarks.settings import (
    BESIDE,
    CELL,
    FLOOR,
    INFERENCE,
    LN_LSTM,
    LSTM,
    REFERENCES,
    TRAINING,
)
from benchmarks.timing import Spread, growth_exponent, linear_fit
from benchmarks.uses import share, uses

Row = tuple[str, ...]

RATIOS = {reference: f"/ {reference}" for reference in (LSTM, CELL, FLOOR)}
NOTE = (
    "Medians of the rounds; ratios of the same round, ± half the distance of their quartiles. "
    "LSTM: keras.layers.LSTM, plain or with jit_compile, whichever is faster. RNN(cell): "
    "keras.layers.RNN of a cell with three LayerNormalization. GEMMs: the matrix products of the "
    "LSTM alone, as fast as we can run them."
)
EVERYDAY_NOTE = (
    "Time over that of keras.layers.LSTM (LN-GRU: of keras.layers.GRU): the median of the rounds, "
    "each with all layers in turn; of several shapes the geometric mean (and the worst). A warm "
    "step is held against the LSTM with jit_compile where that is faster, as it is at inference; "
    "predict and the SavedModel are not compiled, on either side. RNN(cell): keras.layers.RNN of "
    "an LSTM cell with three LayerNormalization. First calls and cold starts are in fresh "
    "processes; imports, and the collection of what they left, are not counted. No GPU was "
    "measured."
)
BESIDE_COLUMNS = ("", "LSTM", *BESIDE)


@dataclasses.dataclass(frozen=True)
class Table:
    """A title, columns and rows of text; a row of one cell heads those below it."""

    title: str
    columns: Row
    rows: tuple[Row, ...]
    note: str = ""


def terminal_tables(results: Results) -> Iterator[Table]:
    """All that was measured, variant by variant, and the goals."""
    yield everyday(results)
    yield recurrent(results, TRAINING)
    yield recurrent(results, INFERENCE)
    yield from _others(results)


def markdown_tables(results: Results) -> Iterator[Table]:
    """The README's table, and those of docs/speed.md."""
    yield everyday(results)
    yield by_shape(results)
    yield from _others(results)


def _others(results: Results) -> Iterator[Table]:
    yield first(results)
    yield fits(results)
    yield predicts(results)
    yield served(results)
    yield eager(results)
    yield growth(results)
    yield layers(results)
    yield tflite(results)
    yield memory(results)
    yield goal_table(results)


def everyday(results: Results) -> Table:
    """What a user does, and each layer's time beside Keras' own."""
    rows: list[Row] = []
    when = None
    for use in uses(results):
        if use.when != when:
            when = use.when
            rows.append((when,))
        shares = (share(results, use, name) for name in BESIDE)
        rows.append((use.what, *("" if s is None else str(s) for s in shares)))
    return Table("Time / keras.layers.LSTM", ("", *BESIDE), tuple(rows), EVERYDAY_NOTE)


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
        note = f"{NOTE} First: the first call, which traces and compiles."
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


def first(results: Results) -> Table:
    """First calls."""
    note = "Of a model that was just made, at (B, T, D, H): the call traces, and may compile."
    return Table("First calls", BESIDE_COLUMNS, _by_mode(results, "first"), note)


def fits(results: Results) -> Table:
    """Whole fits from a cold start."""
    tasks = [settings.Task(*m.shape) for m in results.of("cold")]
    sizes = "; ".join(f"{t.name}: {t.units} units, {t.epochs} epochs" for t in tasks)
    note = (
        f"From the making of the model on. {sizes}. Batches of {settings.BATCH}, the last one "
        "smaller. Sentences: an Embedding with mask_zero, every batch padded to its longest "
        "sentence by tf.data."
    )
    return Table("Whole fits from a cold start", BESIDE_COLUMNS, _by_task(results, "cold"), note)


def predicts(results: Results) -> Table:
    """Whole predicts from a cold start."""
    note = "From the making of the model on; the models and data of the fits."
    rows = _by_task(results, "predict")
    return Table("Whole predicts from a cold start", BESIDE_COLUMNS, rows, note)


def served(results: Results) -> Table:
    """Warm predicts, and files."""
    note = (
        "One batch of shape (B, T, D, H), all outputs returned: by predict_on_batch, and by the "
        "signature of a SavedModel of any batch and length, ours written by keras_norm.export, "
        "Keras' layers' by model.export."
    )
    rows = _by_mode(results, "served")
    return Table("Warm predict and served files", BESIDE_COLUMNS, rows, note)


def eager(results: Results) -> Table:
    """Steps without a graph."""
    return Table("Eager steps", BESIDE_COLUMNS, _by_mode(results, "eager"))


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
                for cell in (duration(m.median(name)), _ratio(m, name, (settings.KERAS_STATIC,)))
            ]
            rows.append((name, *cells, f"{size.median(name) / 1e3:.0f} kB"))
    columns = ("(B, T, D, H)", "1 thread", "/ keras", "2 threads", "/ keras", "file")
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
    note = "Geometric means over the shapes or tasks, and the worst of them, where it is said."
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


def _by_mode(results: Results, suite: str) -> tuple[Row, ...]:
    """Rows by shape, those of one mode below its name."""
    rows: list[Row] = []
    for mode in dict.fromkeys(m.mode for m in results.of(suite)):
        rows.append((mode,))
        rows += [(_shape(m), *_beside(m)) for m in results.of(suite, mode)]
    return tuple(rows)


def _by_task(results: Results, suite: str) -> tuple[Row, ...]:
    """A row for every task."""
    return tuple((m.mode, *_beside(m)) for m in results.of(suite))


def _beside(measurement: Measurement) -> Row:
    """The LSTM's time, and every layer's share of that of Keras' layer."""
    lstm = settings.KERAS_LSTM
    time = duration(measurement.median(lstm)) if lstm in measurement.values else ""
    ratios = (measurement.ratio(name, REFERENCES[BESIDE[name]]) for name in BESIDE)
    return time, *("" if ratio is None else f"{ratio.median:.2f}" for ratio in ratios)
