"""Tables of the results, as text for `report`."""

import dataclasses
from collections.abc import Iterator

from benchmarks import settings
from benchmarks.goals import REACHED, UNREACHED, goals
from benchmarks.results import Measurement, Results
from benchmarks.settings import (
    CELL,
    COMPARED,
    INFERENCE,
    LN_LSTM,
    LSTM,
    PRODUCTS,
    REFERENCES,
    TRAINING,
)
from benchmarks.timing import Spread, growth_exponent, linear_fit
from benchmarks.use_cases import RelativeTime, relative_time, use_cases

Row = tuple[str, ...]

RATIOS = {reference: f"/ {reference}" for reference in (LSTM, CELL, PRODUCTS)}
NOTE = (
    "Times are medians of the rounds. Ratios are taken within each round, ± half the interquartile "
    "range. LSTM: keras.layers.LSTM, with or without jit_compile, whichever is faster. RNN(cell): "
    "keras.layers.RNN with an LSTM cell of three LayerNormalization. GEMMs: only the matrix "
    "products of the LSTM, as fast as we can run them."
)
COMMON_USES_NOTE = (
    "Time divided by the time of keras.layers.LSTM (LN-GRU: of keras.layers.GRU), as the median of "
    "rounds that run all layers in turn. For several shapes: the geometric mean, and the worst in "
    "parentheses. A warm step is compared with the LSTM with jit_compile if that is faster. "
    "RNN(cell): keras.layers.RNN with an LSTM cell of three LayerNormalization. First calls and "
    "cold starts run in fresh processes, without their imports."
)
COMPARED_COLUMNS = ("", "LSTM", *COMPARED)


@dataclasses.dataclass(frozen=True)
class Table:
    """Title, columns and rows of text; a row of one cell is a heading."""

    title: str
    columns: Row
    rows: tuple[Row, ...]
    note: str = ""


def terminal_tables(results: Results) -> Iterator[Table]:
    """Yield the tables for the terminal, which show every variant."""
    yield common_uses(results)
    yield recurrent(results, TRAINING)
    yield recurrent(results, INFERENCE)
    yield first(results)
    yield fits(results)
    yield predicts(results)
    yield served(results)
    yield eager(results)
    yield options(results)
    yield growth(results)
    yield layers(results)
    yield tflite(results)
    yield memory(results)
    yield goal_table(results)


def markdown_tables(results: Results) -> Iterator[Table]:
    """Yield the tables of docs/guides/benchmarks.md; the terminal shows the other tables too."""
    yield common_uses(results)
    yield options(results)


def common_uses(results: Results) -> Table:
    """Create the table of use cases, with each layer's time relative to Keras."""
    rows: list[Row] = []
    stage = None
    for use in use_cases(results):
        if use.stage != stage:
            stage = use.stage
            rows.append((stage,))
        times = (relative_time(results, use, name) for name in COMPARED)
        rows.append((use.call, *("" if time is None else str(time) for time in times)))
    note = f"{COMMON_USES_NOTE} {_tasks(results)}"
    return Table("Time / keras.layers.LSTM", ("", *COMPARED), tuple(rows), note)


def recurrent(results: Results, mode: str) -> Table:
    """Create the table of every recurrent variant in one mode, with the fastest products."""
    rows: list[Row] = []
    for measurement in results.of("recurrent", mode):
        rows.append((_shape(measurement),))
        products = measurement.fastest(REFERENCES[PRODUCTS])
        for name in measurement.values:
            if name in REFERENCES[PRODUCTS] and name != products:
                continue
            ratios = [_ratio(measurement, name, REFERENCES[r]) for r in RATIOS]
            time = duration(measurement.median(name))
            rows.append((name, time, duration(measurement.first[name]), *ratios))
    columns = ("(B, T, D, H)", "median", "first", *RATIOS.values())
    note = ""
    if mode == INFERENCE:  # print the note once, below the second table
        note = f"{NOTE} first: the first call, which traces and compiles."
    return Table(f"Recurrent layers, {mode}", columns, tuple(rows), note)


def first(results: Results) -> Table:
    """Create the table of first calls."""
    note = "First call of a new model, at (B, T, D, H); it traces, and may compile."
    return Table("First calls", COMPARED_COLUMNS, _by_mode(results, "first"), note)


def fits(results: Results) -> Table:
    """Create the table of whole fits from a cold start."""
    note = f"Including the construction of the model. {_tasks(results)}"
    return Table("Whole fits from a cold start", COMPARED_COLUMNS, _by_task(results, "cold"), note)


def predicts(results: Results) -> Table:
    """Create the table of whole predicts from a cold start."""
    note = "Including the construction of the model; with the models and data of the fits."
    rows = _by_task(results, "predict")
    return Table("Whole predicts from a cold start", COMPARED_COLUMNS, rows, note)


def served(results: Results) -> Table:
    """Create the table of warm predicts and SavedModels."""
    note = (
        "One batch of shape (B, T, D, H), returning sequences: by predict_on_batch, and by the "
        "signature of a SavedModel with dynamic batch and time. keras_norm.export writes the files "
        "of our layers, and model.export those of Keras' layers."
    )
    rows = _by_mode(results, "served")
    return Table("Warm predict and served files", COMPARED_COLUMNS, rows, note)


def eager(results: Results) -> Table:
    """Create the table of eager steps."""
    return Table("Eager steps", COMPARED_COLUMNS, _by_mode(results, "eager"))


def options(results: Results) -> Table:
    """Create the table of layers with an option, relative to the layers without it."""
    rows: list[Row] = []
    for name, plain in settings.OPTIONS.items():
        ratios = [results.ratios("options", mode, name, (plain,)) for mode in (TRAINING, INFERENCE)]
        if all(ratios):
            rows.append((name, plain, *(str(RelativeTime.of(of_mode)) for of_mode in ratios)))
    note = (
        "Packed rows: sequences of 20 timesteps on average, with resets. Projection: "
        "projection_units is half of the units."
    )
    columns = ("", "divided by", "training step", "inference step")
    return Table("Options", columns, tuple(rows), note)


def growth(results: Results) -> Table:
    """Create the table of times over lengths."""
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
            f"{duration(start)} + {duration(step)} per timestep."
        )
        rows.append((mode,))
        for m in measured:
            rows.append((f"T = {m.shape[1]}", *(duration(m.median(name)) for name in names)))
    title = "Growth with the length T"
    if rows:
        title += " at (B, D, H) = ({0}, {2}, {3})".format(*measured[0].shape)
    return Table(title, ("", *names), tuple(rows), " ".join(notes))


def layers(results: Results) -> Table:
    """Create the table of normalization layers relative to Keras."""
    rows: list[Row] = []
    measured = {mode: results.of("layers", mode) for mode in (TRAINING, INFERENCE)}
    for both in zip(*measured.values(), strict=True):
        rows.append((_shape(both[0]),))
        for name, keras_name in settings.KERAS_LAYERS.items():
            if name in both[0].values:
                cells = [
                    cell
                    for m in both
                    for cell in (
                        duration(m.median(name)),
                        _ratio(m, name, (f"keras {keras_name}",)),
                    )
                ]
                rows.append((name, *cells))
    columns = ("", "training", "/ Keras", "inference", "/ Keras")
    note = "TimestepBatchNormalization is compared with Keras' BatchNormalization."
    return Table("Normalization layers", columns, tuple(rows), note)


def tflite(results: Results) -> Table:
    """Create the table of latencies and sizes of TFLite files."""
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
    note = "Our files have dynamic batch and time; those of Keras and RNN have static sizes."
    return Table("TFLite, inference", columns, tuple(rows), note)


def memory(results: Results) -> Table:
    """Create the table of the memory of a training step, and of a search's trials."""
    rows: list[Row] = []
    for m in results.of("memory") + results.of("search"):
        rows.append((f"{m.mode}, {_shape(m)}",))
        for name in m.values:
            ratio = m.ratio(name, (settings.KERAS_LSTM,))
            relative = "" if ratio is None else f"{ratio.median:.2f}"
            value = m.median(name)
            amount = duration(value) if m.unit == "s" else f"{value / 2**20:.3g} MiB"
            rows.append((name, amount, relative))
    note = "training: peak of a step. Trials: four batches of a new number of units."
    return Table("Memory", ("", "measured", "/ keras LSTM"), tuple(rows), note)


def goal_table(results: Results) -> Table:
    """Create the table of goals."""
    rows = tuple(
        (g.name, f"{g.measured:.2f}", f"{g.at_most:.2f}", REACHED if g.reached else UNREACHED)
        for g in goals(results)
    )
    note = 'Geometric means over the shapes or tasks; rows with "worst" have the largest ratio.'
    return Table("Goals", ("ratio", "measured", "at most", ""), rows, note)


def duration(seconds: float) -> str:
    """Format seconds with three digits, as s, ms or µs."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        value = seconds * scale
        if abs(value) >= 0.9995 or unit == "µs":
            digits = max(0, 2 - len(str(int(abs(value)))) + 1)
            return f"{value:.{digits}f} {unit}"
    raise AssertionError


def _shape(measurement: Measurement) -> str:
    return str(tuple(measurement.shape))


def _tasks(results: Results) -> str:
    """Describe the models and the data of the whole fits."""
    tasks = [settings.Task(*m.shape) for m in results.of("cold")]
    if not tasks:
        return ""
    sizes = "; ".join(f"{t.name}: {t.units} units, {t.epochs} epochs" for t in tasks)
    return (
        f"{sizes}. The batch size is 32 if no other is given; the last batch is smaller. "
        "Sentences: an Embedding with mask_zero; tf.data pads every batch to its longest sentence."
    )


def _ratio(measurement: Measurement, name: str, reference: Row) -> str:
    if name == measurement.fastest(reference):
        return "1"
    spread: Spread | None = measurement.ratio(name, reference)
    return "" if spread is None else str(spread)


def _by_mode(results: Results, suite: str) -> tuple[Row, ...]:
    """Create a row per shape, below a heading per mode."""
    rows: list[Row] = []
    for mode in dict.fromkeys(m.mode for m in results.of(suite)):
        rows.append((mode,))
        rows += [(_shape(m), *_compare(m)) for m in results.of(suite, mode)]
    return tuple(rows)


def _by_task(results: Results, suite: str) -> tuple[Row, ...]:
    """Create a row per task."""
    return tuple((m.mode, *_compare(m)) for m in results.of(suite))


def _compare(measurement: Measurement) -> Row:
    """Return the time of Keras' LSTM, and each layer's time relative to Keras."""
    lstm = settings.KERAS_LSTM
    time = duration(measurement.median(lstm)) if lstm in measurement.values else ""
    ratios = (measurement.ratio(name, REFERENCES[COMPARED[name]]) for name in COMPARED)
    return time, *("" if ratio is None else f"{ratio.median:.2f}" for ratio in ratios)
