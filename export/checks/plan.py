"""The Keras model of a check, with its data, its expected outputs and sequences to stream."""

import dataclasses
import functools
from collections.abc import Callable

import keras

from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.samples import Samples
from keras_norm.export.errors import StreamingError
from keras_norm.export.model.expected_outputs import expected_for_check
from keras_norm.export.model.reference_runner import reference_runner
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes.runner import Run, Runner
from keras_norm.typing import Arrays

# Number of sequences that run through the step signature, and their maximum number of timesteps.
STREAMS, LONGEST_STREAM = 2, 64
# A check runs a single-step file for about this number of timesteps, summed over all sequences.
TIMESTEPS = 10_000


@dataclasses.dataclass(frozen=True)
class Stream:
    """Test sequences for the step signature, to run one timestep at a time.

    Attributes:
        takes: names of the inputs of the step signature, including the states.
        over_time: function that runs a step over whole sequences and returns the outputs to compare
            (`Step.over_time` or `Step.every_timestep`).
        inputs: whole sequences by input name.
        expected: outputs of the Keras model.
        length: number of timesteps.
    """

    takes: frozenset[str]
    over_time: Callable[[Run, Arrays], Arrays]
    inputs: Arrays
    expected: Arrays
    length: int


class Plan:
    """The Keras model of a check, with its data, its expected outputs and sequences to stream.

    Args:
        model: a functional or Sequential model.
        samples: the first samples of the user's data, validated.
        batch_sizes: see `keras_norm.export.compare.input_cases.make_cases`.
        lengths: see `keras_norm.export.compare.input_cases.make_cases`.

    Attributes:
        run: the Keras model, on the backend that trained it.
        variables: digests of the Keras model's weights before the first call.
        expected: the test inputs, and the outputs of the Keras model for them.

    Raises:
        ValueError: sizes or lengths do not fit the model, or the model cannot run them.
    """

    def __init__(
        self,
        model: keras.Model,
        samples: Samples,
        batch_sizes: list[int] | None = None,
        lengths: list[int] | None = None,
    ) -> None:
        self.model, self.samples = model, samples
        self.run: Runner = reference_runner(model)
        self.variables = self.run.variable_digests()
        self.expected: Expected = expected_for_check(model, samples, batch_sizes, lengths)

    @functools.cached_property
    def stream(self) -> Stream | str:
        """Sequences for the step signature; or the reason why the model has no step signature.

        The expected outputs are those of the model for whole sequences.
        """
        step = self._step
        if isinstance(step, str):
            return step
        lengths = [self.samples.arrays[name].shape[1] for name in step.sequences]
        steps = step.length or min(LONGEST_STREAM, *lengths)
        inputs = self._sequences(step, self.samples.batch or STREAMS, steps)
        takes = frozenset(step.inputs | step.states)
        return Stream(takes, step.over_time, inputs, self.run(inputs), steps)

    @functools.cached_property
    def long_stream(self) -> Stream | str:
        """Sequences for a single-step file; or the reason why the model has no step signature.

        The samples are repeated for many timesteps, and each sequence starts from zero states. The
        outputs are compared at every timestep, even if the model returns only the last timestep.
        """
        step = self._step
        if isinstance(step, str):
            return step
        lengths = [self.samples.arrays[name].shape[1] for name in step.sequences]
        steps, size = min(max(lengths), TIMESTEPS), self.samples.batch or 1
        rows = size * max(-(-TIMESTEPS // (steps * size)), 2)
        inputs = self._sequences(step, rows, steps)
        expected = step.every_timestep(step.trace(), inputs)
        takes = frozenset(step.inputs | step.states)
        return Stream(takes, step.every_timestep, inputs, expected, rows * steps)

    @functools.cached_property
    def _step(self) -> Step | str:
        try:
            return Step(self.model)
        except StreamingError as error:
            return str(error)

    def _sequences(self, step: Step, rows: int, steps: int) -> Arrays:
        whole = self.samples.take(range(rows))
        return {n: a[:, :steps] if n in step.sequences else a for n, a in whole.items()}
