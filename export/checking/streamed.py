"""Files of a step alone: whole sequences run through them as streams."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.checking.artifacts import Source
from keras_norm.export.comparing.cases import Samples
from keras_norm.export.comparing.eight_bits import Useful
from keras_norm.export.comparing.properties import Arrays, Tolerance
from keras_norm.export.errors import RunnerError, StreamingError
from keras_norm.export.exporting.find_step import traced
from keras_norm.export.exporting.streaming import Step
from keras_norm.export.results import Property, difference
from keras_norm.export.signature import STEP

# Timesteps, of all streams together, that are compared one by one.
TIMESTEPS = 10_000


class Streamed:
    """A file of the step alone, as a function of whole sequences.

    Args:
        run: the runner of its signature `step`.
        step: the Keras model timestep by timestep.
    """

    def __init__(self, run: Any, step: Step) -> None:
        self.run, self.step = run, step
        self.path, self.arena = run.path, getattr(run, "arena", None)
        self.ops, self.state, self.seconds = run.ops, run.state, run.seconds

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """What the model gives for the whole: see `Step.over_time`."""
        return self.step.over_time(self.run, inputs)

    def signatures(self) -> list[str]:
        """None that another call could open."""
        return []

    def __enter__(self) -> "Streamed":
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()


@dataclasses.dataclass(frozen=True)
class Streams:
    """A Keras model and the samples that stream through it.

    Attributes:
        model: a functional or a built sequential model.
        samples: the user's data.
    """

    model: Any
    samples: Samples

    def source(self, source: Source) -> Source:
        """The source as `check` takes it: one of a step alone opens as a function of the whole."""
        if not source.alone:
            return source
        return dataclasses.replace(source, open=functools.partial(self._open, source))

    def compare(self, run: Streamed, tolerance: Tolerance | Useful) -> Property:
        """Whether a file gives what the model gives, timestep by timestep, over many of them.

        The samples stream through it one after another, each from states of zero, again and again.
        What the model has at the end alone is compared after every timestep too.

        Args:
            run: the file.
            tolerance: how far the outputs may differ.
        """
        inputs, expected, length = self._expected
        actual = run.step.every_timestep(run.run, inputs)
        for result in tolerance.compare(expected, actual):
            if not result:
                return Property("streaming", "fail", difference(result))
        rows = len(next(iter(inputs.values())))
        return Property("streaming", "pass", f"{rows * length:,} timesteps, {rows} streams")

    @functools.cached_property
    def step(self) -> Step:
        """The model timestep by timestep."""
        return Step(self.model)

    @functools.cached_property
    def _expected(self) -> tuple[Arrays, Arrays, int]:
        length = min(self.samples.longest, TIMESTEPS)
        size = self.samples.batch or 1
        rows = size * max(-(-TIMESTEPS // (length * size)), 2)
        inputs = self.samples.take([row % self.samples.count for row in range(rows)])
        inputs = {n: a[:, :length] if n in self.samples.timed else a for n, a in inputs.items()}
        return inputs, self.step.every_timestep(traced(self.step), inputs), length

    def _open(self, source: Source) -> Streamed:
        try:
            step = self.step
        except StreamingError as error:
            raise RunnerError(
                f"the file is a step alone, and the model has none: {error}"
            ) from error
        return Streamed(source.open(STEP), step)
