"""The Keras model or a loaded artifact, with the outputs, size and latency that a check records."""

import contextlib
import dataclasses
import pathlib
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_norm.export.checks.artifacts import SingleStepRunner
from keras_norm.export.checks.data_measurements import (
    ArtifactMeasurements,
    Batch,
    DataMeasurements,
    run_batches,
)
from keras_norm.export.checks.data_reader import Part
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.compare.samples import Samples
from keras_norm.export.compare.tolerance import TOLERANCES, coarsest
from keras_norm.export.errors import RunnerError, UnsafeOpError, one_line
from keras_norm.export.formats.artifact_format import Source
from keras_norm.export.model.tolerance_factors import model_precision, timestep_counter
from keras_norm.export.results.artifact_result import Cost
from keras_norm.export.runtimes.runner import Runner
from keras_norm.typing import Arrays

# The check times at most 5 calls of a model, and starts no further call after 0.25 seconds.
CALLS, SECONDS = 5, 0.25


@dataclasses.dataclass
class Subject:
    """What a check tests: the Keras model or a loaded artifact, with its recorded outputs.

    Attributes:
        source: the artifact and its runtime.
        plan: the Keras model, with its data and expected outputs.
        runner: the open runner; None if it did not open, or raised an error on the data.
        error: the reason why the artifact did not open or run, or None.
        unsafe_ops: names of the nodes by unsafe operation; a file with such nodes is not opened.
        variables: digests of the variables before the first call; empty if they are not visible.
        outputs: outputs for each test input of `plan.expected`, the edge cases last; fewer after an
            error. The first call runs the first test input.
        cost: bytes, milliseconds and operations; None after an error.
        on_data: the differences of an artifact from the Keras model over all data.
        data: the measurements of the Keras model over all data; None for an artifact.
    """

    source: Source
    plan: Plan
    runner: Runner | None = None
    error: str | None = None
    unsafe_ops: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    outputs: tuple[Arrays, ...] = ()
    cost: Cost | None = None
    on_data: ArtifactMeasurements = dataclasses.field(default_factory=ArtifactMeasurements)
    data: DataMeasurements | None = None

    @property
    def is_keras_model(self) -> bool:
        """Whether this object holds the Keras model, and not an exported file."""
        return self.data is not None

    @property
    def run(self) -> Runner:
        """The function that runs the Keras model or the loaded artifact on input arrays.

        Raises:
            RunnerError: the artifact did not open.
        """
        if self.runner is None:
            raise RunnerError(self.error or f"{self.source.name} is not open")
        return self.runner

    def run_batch(self, batch: Batch, source: str, rtol: float | None) -> None:
        """Run one batch of the data, and measure how the outputs differ from the Keras model.

        After an error the artifact runs no further batch.
        """
        if self.runner is None:
            return
        try:
            outputs = self.runner(batch.case.inputs)
            actual = {name: np.asarray(value) for name, value in outputs.items()}
        # Catch every error, because a runtime or a user's function may raise any error. The
        # artifact's result shows the error, and the check goes on with the other artifacts.
        except Exception as error:
            self.runner, self.error = None, one_line(error)
            return
        if rtol is None:
            precision = model_precision(self.plan.model, batch.case.outputs)
            rtol = TOLERANCES[coarsest([self.source.precision, precision])]
        self.on_data.add(batch, actual, rtol, source)

    def record(self) -> None:
        """Run the test inputs that did not run yet, and measure size, latency and operations.

        The outputs are stored in `outputs`, and an error of the runner in `error`.
        """
        if self.runner is None:
            return
        try:
            expected = self.plan.expected
            for case in expected.all_cases[len(self.outputs) :]:
                self.outputs += (self.run(case.inputs),)
            self.cost = measure_cost(self.run, self.plan.samples, expected.batch)
        # Catch every error, because a runtime or a user's function may raise any error. The
        # artifact's result shows the error.
        except Exception as error:
            self.error = one_line(error)


@contextlib.contextmanager
def open_subjects(sources: Sequence[Source], plan: Plan) -> Iterator[tuple[Subject, ...]]:
    """Open every artifact, and call each artifact once with the first test input.

    An error of an artifact is stored in its `Subject.error`; the next artifact still opens.
    """
    with contextlib.ExitStack() as stack:
        # The imports of a worker process take seconds, so all workers start in parallel.
        workers = [stack.enter_context(s.start()) if s.start else None for s in sources]
        subjects = []
        for source, worker in zip(sources, workers, strict=True):
            subject = Subject(source, plan)
            try:
                subject.runner = stack.enter_context(source.open(worker=worker))
                subject.variables = subject.run.variable_digests()
                subject.outputs = (subject.run(plan.expected.cases[0].inputs),)
            except UnsafeOpError as error:
                subject.error = "the artifact was not run, because it has unsafe operations"
                subject.unsafe_ops = error.ops
            except Exception as error:
                subject.runner, subject.error = None, one_line(error)
            subjects.append(subject)
        yield tuple(subjects)


def run_all_data(
    parts: Iterable[Part],
    plan: Plan,
    subjects: Sequence[Subject],
    gap: GapMeter,
    rtol: float | None,
) -> DataMeasurements:
    """Run the Keras model and all exported files on all data, and measure their outputs.

    The result has the measurements of the Keras model; `Subject.on_data` gets the measurements of
    an artifact. Inference mode runs in batches of at most `plan.expected.batch` samples. Training
    mode, for the train/inference gap, runs a whole part as one batch, or in batches of the static
    batch size. `rtol` is the relative tolerance; None for the tolerance of the values' precision.
    """
    measured, count_timesteps = DataMeasurements(), timestep_counter(plan.model)
    for part in parts:
        labels: Arrays = {}
        for batch in run_batches(part, plan.run, plan.expected.batch):
            labels = batch.part_labels
            measured.add(batch, count_timesteps(batch.case.inputs))
            for subject in subjects:
                subject.run_batch(batch, part.source, rtol)
        for rows, case in part.samples.batches(part.samples.count):
            gap.add(case.inputs, {name: y[rows] for name, y in labels.items()})
    return measured


def measure_cost(run: Runner, samples: Samples, batch: int) -> Cost:
    """Measure the size, the operations and the latency of a file, or of the Keras model.

    Args:
        run: the runner.
        samples: real data.
        batch: the largest batch size to time.
    """
    sizes = sorted({samples.batch or 1, batch})
    # A file that runs one timestep in each call is timed at its static batch size, or at batch
    # size 1 if the batch size is dynamic.
    if isinstance(run, SingleStepRunner):
        sizes = [run.batch]
    ops = sorted(((op, len(nodes)) for op, nodes in run.ops().items()), key=lambda x: (-x[1], x[0]))
    return Cost(
        size=None if run.path is None else file_size(run.path),
        latency=tuple((n, measure_milliseconds(run, samples.case(range(n)).inputs)) for n in sizes),
        ops=tuple(ops),
        arena=run.arena,
        per_timestep=isinstance(run, SingleStepRunner),
    )


def file_size(path: pathlib.Path) -> int:
    """Return the bytes of a file, or of all files in a directory."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def measure_milliseconds(run: Runner, inputs: Arrays) -> float:
    """Return the median latency of a call in milliseconds; a first warm-up call is not counted.

    The latency is the runner's own measurement, `Runner.seconds`, or else the wall-clock time.
    """
    run(inputs)
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or (len(taken) < CALLS and time.perf_counter() < end):
        start = time.perf_counter()
        run(inputs)
        whole = time.perf_counter() - start
        measured = run.seconds()
        taken.append(whole if measured is None else measured)
    return 1e3 * statistics.median(taken)
