"""Artefacts that run: what they answer is plain arrays, which others compare."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops as tensors

from keras_norm.export.checks.artifacts import Source
from keras_norm.export.checks.cost import measure_cost
from keras_norm.export.checks.plan import Plan, Stream
from keras_norm.export.checks.properties import AT_ONCE, SECONDS, THREADS
from keras_norm.export.compare.element_differences import Arrays
from keras_norm.export.compare.input_cases import padded
from keras_norm.export.errors import UnsafeOpError, one_line
from keras_norm.export.formats.registry import format_of
from keras_norm.export.results.artifact_result import Cost
from keras_norm.export.signature import STEP

# Keras' own recurrent layers draw dropout masks at inference too, and use none: the seed moves, and
# nothing else.
SEED_VARIABLE = "seed_generator_state"

# Why a file with unsafe operations has no outputs.
NOT_RUN = "it was not run, for the operations that it holds"


@dataclasses.dataclass
class Opened:
    """One artefact in one runner.

    Attributes:
        source: what it is.
        run: the runner; None where it did not open, or no longer runs.
        state: digests of its variables before the first call.
        first: what it gave in the first call.
        error: why it did not open or run, or None.
        unsafe: the operations for which it was not opened, with the names of their nodes.
    """

    source: Source
    run: Any = None
    state: dict[str, str] = dataclasses.field(default_factory=dict)
    first: Arrays = dataclasses.field(default_factory=dict)
    error: str | None = None
    unsafe: dict[str, list[str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Answers:
    """What a model answered to a plan; what it did not come to is empty, or None.

    Attributes:
        first: to the first case, before all other calls.
        cases: to each case.
        edges: to each case of the plan's edges.
        companions: to each of the plan's companions.
        again: to the first case, and then to the last one, after all others.
        at_once: number of calls by many threads, and the lowest and the highest answers to the
            cases `picked`; None where threads cannot call it.
        picked: which cases these are.
        streamed: to the plan's stream, timestep by timestep; or how the signature is another's;
            None without one.
        changed: the variables that the calls changed.
        ops: how many kinds of op it holds, and those that a plain runtime lacks.
        cost: bytes, milliseconds and operations.
        error: why it did not come to the rest, or None.
        unsafe: the operations for which it was not run, with the names of their nodes.
    """

    first: Arrays = dataclasses.field(default_factory=dict)
    cases: tuple[Arrays, ...] = ()
    edges: tuple[Arrays, ...] = ()
    companions: tuple[Arrays, ...] = ()
    again: tuple[Arrays, ...] = ()
    at_once: Any = None
    picked: tuple[int, ...] = ()
    streamed: Arrays | str | None = None
    changed: tuple[str, ...] = ()
    ops: tuple[int | None, tuple[str, ...]] | None = None
    cost: Cost | None = None
    error: str | None = None
    unsafe: dict[str, list[str]] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def opened(sources: Sequence[Source], first: Arrays | None = None) -> Iterator[tuple[Opened, ...]]:
    """Open every artefact, and call it once.

    Whatever one raises is a finding, and the others are still to be run.

    Args:
        sources: the artefacts.
        first: inputs of the first call; None for none.
    """
    with contextlib.ExitStack() as stack:
        # What they import takes seconds: all do it at once.
        workers = [stack.enter_context(s.start()) if s.start else None for s in sources]
        found = []
        for source, worker in zip(sources, workers, strict=True):
            one = Opened(source)
            try:
                one.run = stack.enter_context(source.open(worker=worker))
                one.state = getattr(one.run, "state", dict)()
                one.first = one.run(first) if first is not None else {}
            except UnsafeOpError as error:
                one.error, one.unsafe = NOT_RUN, error.ops
            except Exception as error:
                one.run, one.error = None, one_line(error)
            found.append(one)
        yield tuple(found)


@contextlib.contextmanager
def left_as_it_was(model: Any) -> Iterator[None]:
    """Give the model's variables, seeds and metrics among them, what they held before."""
    before = [tensors.convert_to_numpy(variable) for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)


def answers_of(artifact: Opened, plan: Plan, size: int | None = None) -> Answers:
    """Ask one model all that a plan has.

    Args:
        artifact: the model.
        plan: what to ask.
        size: bytes of what has no file.
    """
    found = Answers(artifact.first, error=artifact.error, unsafe=artifact.unsafe)
    try:
        if artifact.run is not None:
            _ask(artifact, plan, size, found)
    # Whatever a runner raises is a finding about its artefact.
    except Exception as error:
        found.error = one_line(error)
    return found


def _ask(artifact: Opened, plan: Plan, size: int | None, found: Answers) -> None:
    run, source = artifact.run, artifact.source
    found.cases = tuple(run(case.inputs) for case in plan.cases)
    found.edges = tuple(run(case.inputs) for case in plan.edges)
    found.companions = tuple(run(asked.case.inputs) for asked in plan.companions)
    if hasattr(run, "run_at_once"):
        picked = {*np.linspace(0, len(plan.cases) - 1, AT_ONCE).astype(int).tolist()}
        found.picked = tuple(sorted(picked))
        inputs = [plan.cases[k].inputs for k in found.picked]
        found.at_once = run.run_at_once(inputs, threads=THREADS, seconds=SECONDS)
    found.cost = measure_cost(run, plan.samples, plan.batch, size)
    found.again = tuple(run(plan.cases[k].inputs) for k in (0, -1))
    found.changed = changed_weights(artifact.state, getattr(run, "state", dict)())
    found.ops = ops(run)
    if source.alone:
        found.streamed = _streamed(run.run, plan.long_stream())
    elif source.path and STEP in run.signatures():
        with source.open(STEP, worker=run.worker) as step:
            found.streamed = _streamed(step, plan.stream())


def answers_to_padding(run: Any, plan: Plan) -> dict[str, Arrays]:
    """What a model gives for padded sequences; nothing where none can be padded."""
    if isinstance(plan.padding, str):
        return {}
    return {side: run(inputs) for side, inputs in padded(plan.samples, plan.padding).items()}


def changed_weights(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The variables, but for seeds, whose digest is another; see `WorkerRunner.state`."""
    changed = (n for n, d in before.items() if now.get(n) != d and SEED_VARIABLE not in n)
    return tuple(name.split(": ")[1] for name in changed)


def ops(runner: Any) -> tuple[int | None, tuple[str, ...]]:
    """How many kinds of op a file holds, and those that its format's plain runtimes lack.

    A SavedModel may hold no XLA op, no `jit_compile`d function and no custom op; a TFLite file no
    Flex op and no custom op; an ONNX file no op of another domain than ONNX's own.

    Args:
        runner: a runner with `path` and `ops()`, or any function.

    Returns:
        None for what is no file, and 0 where the runner does not see the file's own.
    """
    path = getattr(runner, "path", None)
    if path is None:
        return None, ()
    used, known = runner.ops(), format_of(path)
    foreign = known.foreign_ops(path, used) if used and known is not None else ()
    return len(used), tuple(sorted(foreign))


def _streamed(step: Any, stream: Stream | str) -> Arrays | str:
    taken = frozenset(getattr(step, "inputs", ()))
    if isinstance(stream, str):
        return stream
    if taken != stream.takes:
        return f"the signature step is another's: it takes {', '.join(sorted(taken))}"
    return stream.over_time(step, stream.inputs)
