"""Define the property "row independence": a row's output does not depend on other rows."""

import numpy as np

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import is_text
from keras_norm.export.compare.input_cases import neighbor_cases
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays


class RowIndependence(Property):
    """Test whether the output of a row depends on the other rows of its batch.

    Some rows run alone and in a batch of copies of the row. Their outputs must equal their outputs
    in the original batch. In a model of texts, the longest text of a batch may determine the number
    of timesteps. The outputs are then compared at the timesteps that both batches have.
    """

    name = "row independence"
    meaning = "the output of a row depends on the other rows of its batch"
    advice = (
        "Export in inference mode (training=False): batch statistics depend on all rows. If the "
        "inputs are texts, mask the padding of shorter texts with Embedding(mask_zero=True), or "
        "build TextVectorization with output_sequence_length."
    )

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Compare the outputs of rows in a batch with their outputs alone and among copies."""
        plan = subject.plan
        (_, original), *others = neighbor_cases(plan.samples, plan.expected.batch)
        expected, batch = subject.run(original.inputs), len(original.rows)
        for output, value in expected.items():
            if np.ndim(value) == 0 or len(value) != batch:
                return self.failed(
                    f"output {output!r} has the shape {np.shape(value)}, but needs one row for "
                    f"each of the {batch} rows of the batch"
                )
        if not others:
            return self.not_applicable(
                "every batch has only one row, so no row can depend on another row"
            )
        pairs = []
        for row, case in others:
            is_alone, actual = len(case.rows) == 1, subject.run(case.inputs)
            rows = _select_row(expected, row), _select_row(actual, 0 if is_alone else row)
            if any(map(is_text, case.inputs.values())):
                rows = _cut_to_common_shapes(*rows)
            how = "alone" if is_alone else "among copies of itself"
            pairs.append(Pair(*rows, f"row {row} {how}: ", original.rows[row : row + 1]))
        count = len({row for row, _ in others})
        detail = f"{count} of {batch} rows have equal outputs with and without the other rows"
        return self.compare(pairs, detail, tolerance.calls)


def _select_row(outputs: Arrays, row: int) -> Arrays:
    return {name: value[row : row + 1] for name, value in outputs.items()}


def _cut_to_common_shapes(expected: Arrays, actual: Arrays) -> tuple[Arrays, Arrays]:
    """Cut the expected and the actual array of each output to equal shapes.

    On each axis, both arrays get the smaller of their two sizes.
    """
    cut = dict(expected), dict(actual)
    for name in expected.keys() & actual.keys():
        if np.ndim(expected[name]) == np.ndim(actual[name]):
            sizes = zip(np.shape(expected[name]), np.shape(actual[name]), strict=True)
            common = tuple(slice(min(pair)) for pair in sizes)
            for arrays in cut:
                arrays[name] = arrays[name][common]
    return cut
