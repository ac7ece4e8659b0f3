"""Files of a step alone: whole sequences run through them as streams."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.errors import RunnerError, StreamingError
from keras_norm.export.exporting.streaming import Step
from keras_norm.export.runners import Arrays
from keras_norm.export.signature import STEP


class Streamed:
    """A file of the step alone, as a function of whole sequences.

    Args:
        model: the Keras model, which says what is a sequence and what a state.
        open_runner: from a signature and a worker process, if there is one, to the file's runner.
        worker: that process.

    Raises:
        RunnerError: the file does not run, or the model has no step.
    """

    def __init__(self, model: Any, open_runner: Any, worker: Any = None) -> None:
        try:
            self.step = Step(model)
        except StreamingError as error:
            raise RunnerError(
                f"the file is a step alone, and the model has none: {error}"
            ) from error
        self.run = open_runner(STEP, worker=worker)
        self.batch = next(spec.shape[0] for spec in self.run.inputs.values())
        self.path, self.arena = self.run.path, getattr(self.run, "arena", None)
        self.ops, self.state, self.seconds = self.run.ops, self.run.state, self.run.seconds

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """What the model gives for the whole: see `Step.over_time`."""
        return self.step.over_time(self.run, inputs)

    def __enter__(self) -> "Streamed":
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()
