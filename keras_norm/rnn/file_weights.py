"""Raise an error with advice if a weights file lacks the weights of a normalized cell."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_norm.keras_internals import stored_sublayers


class FileWeights(keras.Layer):
    """Mixin of cells that raises an error with advice for a weights file of plain Keras layers.

    Keras stores weights under the class names of the layers, so a file of `keras.layers.LSTM` has
    nothing for `LayerNormLSTM`. Inside `Bidirectional` and `RNN` the file has the weights of the
    cell, but not of its norms.
    """

    def slot_layers(self) -> dict[str, keras.layers.Layer]:
        """Return a dict from names of norms, such as "kernel_norm", to the norm layers."""
        raise NotImplementedError

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Load the weights of the cell from a file.

        Args:
            store: the arrays that the file has for this cell.

        Raises:
            ValueError: the file has no weights for this cell or its norms, or other weights. The
                weights of the cell do not change.
        """
        stored = stored_sublayers(store)
        norms = {slot for slot, layer in self.slot_layers().items() if layer.weights}
        if self.built and (not store.keys() or (stored is not None and norms - stored)):
            raise ValueError(
                f"The file has no weights for {type(self).__name__} '{self.path}' with its norms. "
                "Load a file of plain Keras layers into a model of these layers, and call "
                "keras_norm.convert(model)."
            )
        super().load_own_variables(store)
