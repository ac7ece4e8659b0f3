"""Define the property "masks": every mask reaches the layers that would use it."""

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.model.masks import lost_masks
from keras_norm.export.results.artifact_result import PropertyResult


class Masks(Property):
    """Test whether every mask in the Keras model reaches the layers that would use it.

    A lost mask is not a failure: the files lose the same mask as the model.
    """

    name = "masks"
    meaning = "a layer reads padding as data, because it does not receive the mask"
    advice = "Give the mask to the layer in its call: layer(x, mask=mask)."

    def applies_to(self, subject: Subject) -> bool:
        """Return whether a mask does not reach a layer of the Keras model that would use it."""
        return subject.is_keras_model and bool(lost_masks(subject.plan.model))

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """List the masks that do not reach a layer which would use them."""
        found = lost_masks(subject.plan.model)
        advice = " ".join(dict.fromkeys(mask.advice for mask in found))
        return self.differs("; ".join(mask.description for mask in found), advice)
