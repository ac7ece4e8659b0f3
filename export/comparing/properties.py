"""Properties that a served model needs, each tested by running it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_norm.export.comparing.cases import Case, Samples
from keras_norm.export.comparing.compare import compare
from keras_norm.export.comparing.eight_bits import Useful
from keras_norm.export.formats.saved_model import unservable_ops
from keras_norm.export.results import OutputComparison, Property, difference

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]

PADDING = 3
ROWS_PADDED = 7
ROWS_ALONE = 3
# Threads that call at once, with how many different inputs, and for how many seconds.
THREADS, AT_ONCE, SECONDS = 8, 4, 0.5

# Keras' own recurrent layers draw dropout masks at inference too, and use none: the seed moves, and
# nothing else.
SEED_VARIABLE = "seed_generator_state"


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """|actual - expected| <= atol + rtol |expected|, with an atol for every output."""

    rtol: float
    atol: Mapping[str, float]

    def compare(self, expected: Arrays, actual: Arrays) -> tuple[OutputComparison, ...]:
        """See `keras_norm.export.comparing.compare.compare`."""
        return compare(expected, actual, self.rtol, self.atol)


@dataclasses.dataclass(frozen=True)
class Stream:
    """Sequences to be run timestep by timestep.

    Attributes:
        takes: names of what a step is given, states among them.
        over_time: from a step and whole sequences to what the model gives for them
            (`Step.over_time`).
        inputs: whole sequences by name.
        expected: what the model gives for them.
        length: number of timesteps.
    """

    takes: frozenset[str]
    over_time: Callable[[Run, Arrays], Arrays]
    inputs: Arrays
    expected: Arrays
    length: int


def row_independence(run: Run, samples: Samples, batch: int, tolerance: Tolerance) -> Property:
    """Whether a row's output depends on that row only.

    Some rows run alone, and among other companions, and must give what they gave in the batch.

    Args:
        run: the model.
        samples: real data.
        batch: size of the batch that rows are taken from.
        tolerance: how far the outputs may differ.
    """
    name = "row independence"
    rows = list(range(batch))
    together = run(samples.take([row % samples.count for row in rows]))
    for output, value in together.items():
        if np.ndim(value) == 0 or len(value) != batch:
            detail = f"output {output!r} of shape {np.shape(value)} has no row for each of {batch}"
            return Property(name, "fail", detail)
    picked = sorted({*np.linspace(0, batch - 1, min(batch, ROWS_ALONE)).astype(int).tolist()})
    for row in picked:
        expected = _rows(together, row)
        # Shifting the others by one gives the row another set of companions, not another order.
        others = [(r if r == row else r + 1) % samples.count for r in rows]
        trials = {"among other rows": _rows(run(samples.take(others)), row)}
        if samples.batch is None:
            trials["alone"] = run(samples.take([row % samples.count]))
        for trial, actual in trials.items():
            for result in tolerance.compare(expected, actual):
                if not result:
                    # The row is named already: it is sample 0 of every comparison.
                    result = dataclasses.replace(result, where=result.where[1:])
                    return Property(name, "fail", f"row {row} {trial}: {difference(result)}")
    return Property(name, "pass", f"{len(picked)} of {batch} rows, alone and among other rows")


def padding(
    run: Run, samples: Samples, fills: Mapping[str, float] | str, tolerance: Tolerance
) -> Property:
    """Whether masked steps appended on the right change nothing that is not padding.

    Outputs without a time dimension must stay; sequences must stay on the steps that were there.

    Args:
        run: the model.
        samples: real data.
        fills: the value that masks a step, by input name; or why padding does not apply.
        tolerance: how far the outputs may differ.
    """
    return _padding("padding", "right", run, samples, fills, tolerance)


def left_padding(
    run: Run, samples: Samples, fills: Mapping[str, float] | str, tolerance: Tolerance
) -> Property:
    """Whether masked steps before the data change nothing: the status is then "pass".

    Otherwise it is "differs", which is no failure: a model may count its timesteps from the start
    of the padded sequence, as statistics of every timestep and position embeddings do.

    Args:
        run: the model.
        samples: real data.
        fills: as for `padding`.
        tolerance: how far the outputs may differ.
    """
    found = _padding("left padding", "left", run, samples, fills, tolerance)
    return dataclasses.replace(found, status="differs") if found.status == "fail" else found


def _padding(
    name: str,
    side: str,
    run: Run,
    samples: Samples,
    fills: Mapping[str, float] | str,
    tolerance: Tolerance,
) -> Property:
    if isinstance(fills, str):
        return Property(name, "not applicable", fills)
    widths, kept = (
        ((0, PADDING), slice(-PADDING))
        if side == "right"
        else (
            (PADDING, 0),
            slice(PADDING, None),
        )
    )
    inputs = samples.take([row % samples.count for row in range(samples.batch or ROWS_PADDED)])
    padded = dict(inputs)
    for masked, fill in fills.items():
        array = inputs[masked]
        around = [(0, 0), widths, *[(0, 0)] * (array.ndim - 2)]
        padded[masked] = np.pad(array, around, constant_values=fill)
    expected, actual = run(inputs), run(padded)
    for output, value in expected.items():
        longer = actual.get(output)
        if longer is not None and value.ndim > 1 and longer.shape[1] == value.shape[1] + PADDING:
            actual[output] = longer[:, kept]
    for result in tolerance.compare(expected, actual):
        if not result:
            detail = f"with {PADDING} masked steps on the {side}, {difference(result)}"
            return Property(name, "fail", detail)
    return Property(name, "pass", f"{PADDING} masked steps on the {side} change nothing")


def streaming(run: Run, stream: Stream | str, tolerance: Tolerance | Useful) -> Property:
    """Whether the signature `step` gives timestep by timestep what the model gives for the whole.

    Args:
        run: the signature.
        stream: sequences for it, or why the model has none.
        tolerance: how far the outputs may differ.
    """
    name = "streaming"
    if isinstance(stream, str):
        return Property(name, "not applicable", f"the model has no step: {stream}")
    taken = set(getattr(run, "inputs", ()))
    if taken != stream.takes:
        detail = f"the signature step is another's: it takes {', '.join(sorted(taken))}"
        return Property(name, "differs", detail)
    actual = stream.over_time(run, stream.inputs)
    for result in tolerance.compare(stream.expected, actual):
        if not result:
            return Property(name, "fail", difference(result))
    return Property(name, "pass", f"{stream.length} timesteps, one call for each")


def repeat(run: Run, first: Case, other: Case, tolerance: Tolerance) -> Property:
    """Whether a call gives the same again after a call with other data.

    Args:
        run: the model.
        first: what is called twice.
        other: what is called in between, of another shape where the model takes one.
        tolerance: how far the answers may differ.
    """
    before = run(first.inputs)
    run(other.inputs)
    for result in tolerance.compare(before, run(first.inputs)):
        if not result:
            detail = f"the same call after another one: {difference(first.locate(result))}"
            return Property("repeat", "fail", detail)
    return Property("repeat", "pass", f"{first.name} again after {other.name}")


def concurrency(
    run: Any, cases: Sequence[Case], expected: Sequence[Arrays], tolerance: Tolerance
) -> Property:
    """Whether many threads at once on one loaded model get the answers that each would get alone.

    Args:
        run: a runner with `run_at_once`, or any function.
        cases: inputs, of several shapes.
        expected: what the runner gives for each alone.
        tolerance: how far the answers may differ.
    """
    name = "concurrency"
    if not hasattr(run, "run_at_once"):
        return Property(name, "not applicable", "SavedModels only, through the C API")
    picked = sorted({*np.linspace(0, len(cases) - 1, AT_ONCE).astype(int).tolist()})
    inputs = [cases[k].inputs for k in picked]
    calls, *bounds = run.run_at_once(inputs, threads=THREADS, seconds=SECONDS)
    for bound in bounds:
        for k, actual in zip(picked, bound, strict=True):
            for result in tolerance.compare(expected[k], actual):
                if not result:
                    detail = f"{cases[k].name}: {difference(cases[k].locate(result))}"
                    return Property(name, "fail", f"{THREADS} threads at once, {detail}")
    return Property(name, "pass", f"{calls} calls by {THREADS} threads at once")


def weights_state(run: Any) -> dict[str, str]:
    """A digest of each variable that a runner can see, by name.

    Args:
        run: a runner with `state()`, or any function.
    """
    return run.state() if hasattr(run, "state") else {}


def unchanged_answer(
    run: Run, case: Case, before: Arrays, state: dict[str, str], tolerance: Tolerance
) -> Property:
    """Whether every weight, and the first answer, is after all calls what it was before.

    Args:
        run: the model.
        case: the first call.
        before: what it gave then.
        state: `weights_state` before the first call.
        tolerance: how far the answers may differ.
    """
    now = weights_state(run)
    changed = [
        name
        for name, digest in state.items()
        if now.get(name) != digest and SEED_VARIABLE not in name
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Property("weights", "fail", f"inference changed {changed[0].split(': ')[1]}{more}")
    for result in tolerance.compare(before, run(case.inputs)):
        if not result:
            detail = f"the first call after all others: {difference(case.locate(result))}"
            return Property("weights", "fail", detail)
    return Property("weights", "pass", "the first call gives the same after all others")


def unchanged_weights(before: Sequence[np.ndarray], variables: Sequence[Any]) -> Property:
    """Whether every variable holds what it held.

    Args:
        before: the variables' values before any call.
        variables: the Keras variables now, in the same order.
    """
    changed = [
        variable.path
        for old, variable in zip(before, variables, strict=True)
        if not np.array_equal(old, ops.convert_to_numpy(variable))
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Property("weights", "fail", f"inference changed {changed[0]}{more}")
    return Property("weights", "pass", f"all {len(before)} variables hold what they held")


def plain_ops(runner: Any) -> Property:
    """Whether every operation is one that the format's plain runtimes have.

    A SavedModel may hold no XLA op, no `jit_compile`d function and no custom op; a TFLite file no
    Flex op and no custom op; an ONNX file no op of another domain than ONNX's own.

    Args:
        runner: a runner with `path` and `ops()`, or any function.
    """
    path = getattr(runner, "path", None)
    if path is None:
        return Property("ops", "not applicable", "no file")
    used = runner.ops()
    if not used:
        return Property("ops", "not applicable", "the runner reads other ops than the file's")
    if path.is_dir():
        foreign = sorted(unservable_ops(path))
    elif path.suffix == ".onnx":
        foreign = sorted(op for op in used if "." in op)  # "domain.Op"
    else:
        # TFLite's builtins are written in capitals; Flex and custom ops by their own names.
        foreign = sorted(op for op in used if not op.isupper())
    if foreign:
        return Property("ops", "fail", f"ops that a plain runtime lacks: {', '.join(foreign)}")
    return Property("ops", "pass", f"{len(used)} kinds of op, all built in")


def _rows(outputs: Arrays, row: int) -> Arrays:
    return {name: value[row : row + 1] for name, value in outputs.items()}
