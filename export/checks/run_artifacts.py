"""Run artifacts on the test inputs and record their outputs; `judge` compares the outputs."""

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

# Keras' own recurrent layers draw unused dropout masks at inference too. This changes the seed
# variable, but no output.
SEED_VARIABLE = "seed_generator_state"

# Error text of a file with unsafe operations.
NOT_RUN = "it was not run, for the operations that it holds"


@dataclasses.dataclass
class Opened:
    """One artifact, opened in one runner.

    Attributes:
        source: the artifact and its runner.
        run: the open runner; None if it did not open, or raised an error later.
        state: digests of the artifact's variables before the first call.
        first: outputs of the first call.
        error: the reason why the artifact did not open or run, or None.
        unsafe: names of the nodes by unsafe operation; an artifact with such nodes is not opened.
    """

    source: Source
    run: Any = None
    state: dict[str, str] = dataclasses.field(default_factory=dict)
    first: Arrays = dataclasses.field(default_factory=dict)
    error: str | None = None
    unsafe: dict[str, list[str]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Answers:
    """The recorded outputs of one model for a plan.

    After an error, the fields of calls that did not run are empty or None.

    Attributes:
        first: outputs for the first of the plan's test inputs, before all other calls.
        cases: outputs for each of `plan.cases`.
        edges: outputs for each of `plan.edges`.
        companions: outputs for each of `plan.companions`.
        again: outputs for the first and for the last of `plan.cases`, after all other calls.
        at_once: the number of concurrent calls, then the elementwise minimum and maximum of the
            outputs for the test inputs `picked`; None if threads cannot call the runner.
        picked: indices in `plan.cases` of the test inputs of the concurrent calls.
        streamed: outputs of the step signature, called once for each timestep; or the reason why
            the signature does not belong to this model; None without a step signature.
        changed: names of the variables that the calls changed.
        ops: number of different operations, and the operations that a standard runtime lacks.
        cost: bytes, milliseconds and operations.
        error: the error that ended the run, or None.
        unsafe: names of the nodes by unsafe operation; an artifact with such nodes is not run.
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
    """Open every artifact and call it once.

    An error of an artifact is recorded in its `Opened.error`; the next artifact still opens.

    Args:
        sources: the artifacts.
        first: inputs of the first call; None to make no call.
    """
    with contextlib.ExitStack() as stack:
        # The imports of a worker process take seconds, so all workers start in parallel.
        workers = [stack.enter_context(s.start()) if s.start else None for s in sources]
        found = []
        for source, worker in zip(sources, workers, strict=True):
            one = Opened(source)
            try:
                one.run = stack.enter_context(source.open(worker=worker))
                one.state = getattr(one.run, "variable_digests", dict)()
                one.first = one.run(first) if first is not None else {}
            except UnsafeOpError as error:
                one.error, one.unsafe = NOT_RUN, error.ops
            except Exception as error:
                one.run, one.error = None, one_line(error)
            found.append(one)
        yield tuple(found)


@contextlib.contextmanager
def left_as_it_was(model: Any) -> Iterator[None]:
    """Restore all variables of the model after the block, including seeds and metrics."""
    before = [tensors.convert_to_numpy(variable) for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)


def answers_of(artifact: Opened, plan: Plan, size: int | None = None) -> Answers:
    """Run one model on all test inputs of a plan and record its outputs.

    Args:
        artifact: the model in its runner.
        plan: the test inputs.
        size: size in bytes of a model without a file.
    """
    found = Answers(artifact.first, error=artifact.error, unsafe=artifact.unsafe)
    try:
        if artifact.run is not None:
            _ask(artifact, plan, size, found)
    # Any error of a runner belongs to the result of its artifact.
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
    found.changed = changed_weights(artifact.state, getattr(run, "variable_digests", dict)())
    found.ops = ops(run)
    if source.is_single_step:
        found.streamed = _streamed(run.run, plan.long_stream())
    elif source.path and STEP in run.signatures():
        with source.open(STEP, worker=run.worker) as step:
            found.streamed = _streamed(step, plan.stream())


def answers_to_padding(run: Any, plan: Plan) -> dict[str, Arrays]:
    """Run a model on padded sequences; return no outputs if padding does not apply."""
    if isinstance(plan.padding, str):
        return {}
    return {side: run(inputs) for side, inputs in padded(plan.samples, plan.padding).items()}


def changed_weights(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """Return the variables whose digest changed, without seeds; see `WorkerRunner.state`."""
    changed = (n for n, d in before.items() if now.get(n) != d and SEED_VARIABLE not in n)
    return tuple(name.split(": ")[1] for name in changed)


def ops(runner: Any) -> tuple[int | None, tuple[str, ...]]:
    """Count the operations of a file, and list those that a standard runtime of the format lacks.

    A standard runtime lacks these operations: in a SavedModel XLA ops, `jit_compile`d functions and
    custom ops; in a TFLite file Flex ops and custom ops; in an ONNX file ops of a custom domain.

    Args:
        runner: a runner with `path` and `ops()`, or any function.

    Returns:
        (number of different operations, operations that a standard runtime lacks). The number is
        None for a function, and 0 if the runner cannot list the file's operations.
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
