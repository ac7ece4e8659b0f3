"""Explain why a file of weights has no weights for a normalized cell."""

from collections.abc import Mapping
from typing import Any

import keras


class FileWeights(keras.Layer):
    """Mixin of cells: raise an error that names `keras_norm.convert` for a file of Keras' layers.

    Keras stores weights under the class names of the layers, so a file of `keras.layers.LSTM` has
    nothing for `LayerNormLSTM`.
    """

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Load the weights of the cell from a file.

        Args:
            store: the arrays that the file has for this cell.

        Raises:
            ValueError: the file has no weights for this cell, or other weights.
        """
        if self.built and not store.keys():
            raise ValueError(
                f"The file has no weights for {type(self).__name__} '{self.path}'. Load a file of "
                "plain Keras layers into a model of these layers, and call "
                "keras_norm.convert(model)."
            )
        super().load_own_variables(store)
