"""Define the properties "right padding" and "left padding": padding does not change outputs."""

from keras_norm.export.checks.properties.masks import Masks
from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.input_cases import PADDING, pad_samples
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.model.masks import mask_fills, why_not_padded
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult


class Padding(Property):
    """Test whether padding on one side, with a mask, changes outputs of the Keras model.

    Outputs without a time dimension must not change. Output sequences must not change at the
    timesteps of the original sequence. The check does not test this property on exported files. It
    compares the files with the Keras model on padded test inputs instead.

    Attributes:
        side: "right" or "left".
        original: the timesteps of the original sequence, in the padded sequence.
    """

    side: str
    original: slice

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return subject.is_keras_model

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Compare outputs for sequences without padding and with masked timesteps on one side."""
        samples, fills = subject.plan.samples, mask_fills(subject.plan.model)
        reason = why_not_padded(fills, samples)
        if reason is not None:
            return self.not_applicable(reason)
        inputs = pad_samples(samples, fills)
        original, actual = subject.run(inputs[""]), dict(subject.run(inputs[self.side]))
        for output, value in original.items():
            longer = actual.get(output)
            if longer is not None and longer.ndim == value.ndim:
                sizes = zip(longer.shape, value.shape, strict=True)
                # Keep only the timesteps of the original sequence. An axis that padding makes
                # longer is a time axis. Attention scores, for example, have two time axes.
                cut = [self.original if n == m + PADDING else slice(None) for n, m in sizes]
                actual[output] = longer[tuple(cut)]
        added = f"{PADDING} masked timesteps on the {self.side}"
        pairs = [Pair(original, actual, f"with {added}, ")]
        return self.compare(pairs, f"{added} change no output", tolerance.calls)

    def advise(self, result: PropertyResult, subject: ArtifactResult) -> str | None:
        """Return advice on padding; None if the property "masks" already gives the advice.

        The property "masks" gives advice if a mask does not reach a layer.
        """
        return None if subject.property(Masks.name) else super().advise(result, subject)


class RightPadding(Padding):
    """Test whether padding on the right, with a mask, changes outputs of the Keras model."""

    name = "right padding"
    meaning = "masked timesteps on the right change outputs at other timesteps"
    advice = "Pad all batches to one length, in training and in serving."
    side, original = "right", slice(-PADDING)

    def advise(self, result: PropertyResult, subject: ArtifactResult) -> str | None:  # noqa: D102
        advice, left = super().advise(result, subject), subject.property(LeftPadding.name)
        if advice and left is not None and left.status == "pass":
            return "Pad on the left: padding on the left does not change the outputs."
        return advice


class LeftPadding(Padding):
    """Test whether padding on the left, with a mask, changes outputs of the Keras model.

    A change is not a failure: its status is "differs". A model may count timesteps from the start
    of the padded sequence, as position embeddings do.
    """

    name = "left padding"
    meaning = "masked timesteps on the left change outputs at other timesteps"
    advice = "Pad on the right: the model counts its timesteps from the start."
    side, original = "left", slice(PADDING, None)

    def failed(self, detail: str) -> PropertyResult:  # noqa: D102
        return self.differs(detail, self.advice)

    def advise(self, result: PropertyResult, subject: ArtifactResult) -> str | None:
        """Return the advice to pad on the right; None if padding on the right changes outputs too.

        If padding on the right fails, its own advice is enough: pad all batches to one length.
        """
        right = subject.property(RightPadding.name)
        failed = right is not None and right.status == "fail"
        return None if failed else super().advise(result, subject)
