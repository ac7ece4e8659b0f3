"""The Keras model that a check tests, with its data, test inputs and expected outputs."""

from collections.abc import Sequence
from typing import NamedTuple

import keras

from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.samples import Samples
from keras_norm.export.model.expected_outputs import expected_for_check
from keras_norm.export.model.reference_runner import reference_runner
from keras_norm.export.model.single_step import Step
from keras_norm.export.runtimes.runner import Runner
from keras_norm.typing import Arrays

# A step signature, which computes one timestep, is tested on 2 sequences of up to 64 timesteps.
STREAMS, LONGEST_STREAM = 2, 64
# A single-step file computes one timestep in each call. It is tested for about 10,000 timesteps in
# total: for example, 10 sequences of 1,000 timesteps.
TIMESTEPS = 10_000


class Stream(NamedTuple):
    """Sequences and expected outputs for a test in which a file computes one timestep per call.

    Attributes:
        step: the single-step model.
        inputs: whole sequences by input name.
        expected: outputs of the Keras model.
        timesteps: number of timesteps; of all sequences together, if every timestep is compared.
    """

    step: Step
    inputs: Arrays
    expected: Arrays
    timesteps: int


class Plan:
    """The Keras model that a check tests, with its data, test inputs and expected outputs.

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
        batch_sizes: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.model, self.samples = model, samples
        self.run: Runner = reference_runner(model)
        self.variables = self.run.variable_digests()
        self.expected: Expected = expected_for_check(model, samples, batch_sizes, lengths, self.run)
        self._streams: dict[bool, Stream] = {}

    def stream(self, one_by_one: bool) -> Stream:
        """Return test sequences that a file runs one timestep at a time; the result is cached.

        Args:
            one_by_one: whether every timestep is compared, for a single-step file. The samples are
                then repeated for many timesteps, and each sequence starts from zero states. The
                expected outputs are the outputs of the step at every timestep, also if the model
                returns the last timestep only. Else they are the model's outputs for whole
                sequences.

        Raises:
            StreamingError: the model cannot have a step signature.
        """
        if one_by_one not in self._streams:
            step = Step(self.model)
            rows = self.samples.batch or STREAMS
            lengths = [self.samples.arrays[name].shape[1] for name in step.sequences]
            steps = step.length or min(LONGEST_STREAM, *lengths)
            if one_by_one:
                steps, size = min(max(lengths), TIMESTEPS), self.samples.batch or 1
                rows = size * max(-(-TIMESTEPS // (steps * size)), 2)
            whole = self.samples.take(range(rows))
            inputs = {n: a[:, :steps] if n in step.sequences else a for n, a in whole.items()}
            expected = step.every_timestep(step.trace(), inputs) if one_by_one else self.run(inputs)
            calls = rows * steps if one_by_one else steps
            self._streams[one_by_one] = Stream(step, inputs, expected, calls)
        return self._streams[one_by_one]
