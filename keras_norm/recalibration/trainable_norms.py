"""List the batch normalizations of a model that can be recalibrated."""

import keras

from keras_norm.named_layers import batch_norms


def trainable_norms(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """Return the batch normalizations of a model that are not frozen, by their paths.

    Raises:
        TypeError: `model` is not a model.
        ValueError: the model is not built, has no batch normalization, or all are frozen.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"model must be a Keras model. Received: {model!r}. Load a saved model with "
            "keras.saving.load_model."
        )
    if not model.built:
        raise ValueError(
            f"Model {model.name!r} is not built, so it has no statistics. Call it on data, or "
            "give it a keras.Input."
        )
    norms = dict(batch_norms(model))
    if not norms:
        raise ValueError(f"Model {model.name!r} has no batch normalization to recalibrate.")
    norms = {path: layer for path, layer in norms.items() if layer.trainable}
    if not norms:
        raise ValueError(
            f"All batch normalizations of model {model.name!r} are frozen. Set trainable=True "
            "on the layers to recalibrate."
        )
    return norms
