"""Custom layers that a process with another backend can import."""

import keras


@keras.saving.register_keras_serializable("own_layers")
class Doubled(keras.layers.Layer):
    """2 x."""

    def call(self, x):
        return 2.0 * x


@keras.saving.register_keras_serializable("own_layers")
class DoubledOnTensorFlow(keras.layers.Layer):
    """2 x on TensorFlow, and x on every other backend."""

    def call(self, x):
        return 2.0 * x if keras.backend.backend() == "tensorflow" else 1.0 * x


@keras.saving.register_keras_serializable("own_layers")
def cubed(x):
    """Return x^3."""
    return x**3


@keras.saving.register_keras_serializable("own_layers")
class Decay(keras.layers.Layer):
    """A cell whose output is not among its states."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units, self.state_size, self.output_size = units, units, 2

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units))

    def call(self, x, states):
        h = 0.5 * states[0] + keras.ops.matmul(x, self.w)
        return h[:, :2], [h]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("own_layers")
class Sampled(keras.layers.Layer):
    """Adds noise also at inference, like a decoder that samples."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x), dtype=x.dtype)


@keras.saving.register_keras_serializable("own_layers")
class Counter(keras.layers.Layer):
    """Adds one to a weight in every call, also at inference, and returns x or x + the number."""

    def __init__(self, is_added=False, **kwargs):
        super().__init__(**kwargs)
        self.is_added = is_added

    def build(self, shape):
        self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x + self.calls if self.is_added else x


class Undescribed(keras.layers.Layer):
    """Has state that its configuration does not describe."""

    factor = 1.0

    def call(self, x):
        return self.factor * x


class Unconfigured(keras.layers.Layer):
    """A layer that has no configuration."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def get_config(self):
        raise NotImplementedError("this layer has no config")

    def call(self, x):
        return x
