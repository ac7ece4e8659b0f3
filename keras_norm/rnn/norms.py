"""The norms of a cell: what may fill a slot, and how a slot is filled and applied."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import keras

from keras_norm.layers.batch_norm import BatchNormalization
from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization

# Slots whose beta is the candidate's: a cell has it in the first of these that it has.
CANDIDATE_SLOTS = ("cell_norm", "kernel_candidate_norm", "kernel_norm")

# Slots of W x alone. (Those of the joint form are of W x + U h.)
INPUT_SLOTS = ("kernel_norm", "kernel_candidate_norm")
ENOUGH_FEATURES = 4
FEW_FEATURES = (
    "A norm of W x removes the scale of x: where x has one feature, only its sign is left. "
    "Received inputs whose last dimension is {features}, and {norm} in {slot}. Put a Dense layer "
    "with more units before this layer, or leave that norm out by norm={others} in NormLSTM, "
    "NormGRU or NormSimpleRNN. An LSTM with norm_form='joint' keeps the scale, too."
)

# What a loop computes in the place of.
CALLS = (BatchNormalization.call, TimestepBatchNormalization.call)


class Slots:
    """The places in a cell that a norm fills.

    It is no layer and no container of Keras', so that the template it keeps is not taken for a
    layer of the cell's own.

    Args:
        norm: None, a layer for every slot, or a dict from slots to layers.
        widths: the slots that the cell has, in the order of their weights, with their widths.

    Attributes:
        count_steps: whether some slot has statistics of every timestep.
        normalize_rows: whether some slot divides by the size of one row, which can be zero.

    Raises:
        TypeError: `norm` is none of these.
        ValueError: a slot that the cell does not have, or a layer that no recurrence can hold.
    """

    def __init__(self, norm: Any, widths: Mapping[str, int]) -> None:
        if isinstance(norm, Mapping):
            norm = {slot: layer for slot, layer in norm.items() if layer is not None} or None
        chosen = norm if isinstance(norm, Mapping) else dict.fromkeys(widths, norm)
        unknown = sorted(set(chosen) - set(widths))
        if unknown:
            raise ValueError(
                f"norm names slots that this cell does not have: {', '.join(unknown)}. "
                f"Its slots are {', '.join(widths)}."
            )
        self.norm = norm
        self.widths = dict(widths)
        self.templates = {
            slot: _template(slot, chosen[slot]) for slot in widths if chosen.get(slot) is not None
        }
        classes = [cls for cls, _ in self.templates.values()]
        self.count_steps = any(issubclass(cls, TimestepBatchNormalization) for cls in classes)
        self.normalize_rows = not all(issubclass(cls, StatisticsNormalization) for cls in classes)

    def start_beta(self, initializer: Any) -> bool:
        """Let the candidate's beta start as the bias would, where zeros would be its start.

        Args:
            initializer: the `CandidateNormal` of the bias.

        Returns:
            Whether there is such a beta.
        """
        slot = next(slot for slot in CANDIDATE_SLOTS if slot in self.widths)
        _, config = self.templates.get(slot, (None, {}))
        start = config.get("beta_initializer")
        if not config.get("center") or start is None:
            return False
        if isinstance(keras.initializers.get(start), keras.initializers.Zeros):
            units = initializer.units
            gate = initializer.gate if self.widths[slot] > units else -1
            config["beta_initializer"] = initializer.of(units, gate)
        return True

    def warn_of_few_features(self, features: int) -> None:
        """Warn where a norm of each sample leaves little of so few input features."""
        for slot in INPUT_SLOTS:
            cls, _ = self.templates.get(slot, (StatisticsNormalization, {}))
            if features < ENOUGH_FEATURES and not issubclass(cls, StatisticsNormalization):
                kept = [f"'{other}': ..." for other in self.widths if other not in INPUT_SLOTS]
                others = f"{{{', '.join(kept)}}}"
                given = {"features": features, "norm": cls.__name__, "slot": slot}
                warnings.warn(FEW_FEATURES.format(**given, others=others), stacklevel=2)
                return

    def fill(self, dtype: Any, trainable: bool) -> dict[str, Any]:
        """A copy of each slot's template, named after the slot and built for its width.

        Raises:
            ValueError: a layer whose output has another shape than its input.
        """
        layers = {}
        for slot, (cls, config) in self.templates.items():
            layer = cls.from_config({**config, "name": slot, "dtype": dtype})
            layer.trainable = layer.trainable and trainable
            # A call builds whatever layers there are inside, as `build` alone need not.
            x = keras.KerasTensor((None, self.widths[slot]), layer.compute_dtype)
            y = call_layer(layer, x, training=False, step=0)
            if y.shape != x.shape:
                raise ValueError(
                    f"A norm keeps the shape of its inputs. Received {cls.__name__} for {slot}, "
                    f"which makes {y.shape} of {x.shape}."
                )
            layers[slot] = layer
        return layers


def call_layer(layer: Any, x: Any, training: bool, mask: Any = None, step: Any = None) -> Any:
    """Call a layer, with those of the other arguments that its call takes."""
    given = {"mask": mask, "training": training, "step": step}
    takes = inspect.signature(layer.call).parameters
    return layer(x, **{name: value for name, value in given.items() if name in takes})


def _template(slot: str, layer: Any) -> tuple[Any, dict[str, Any]]:
    """The class and configuration that copies of a layer are made from.

    Keras' BatchNormalization becomes ours: inside a loop it would see no mask, and move its
    statistics once a timestep.
    """
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(
            "norm must be None, a normalization layer, or a dict from slots to layers, such as "
            f"norm=keras_norm.LayerNormalization(epsilon=1e-5). Received: {layer!r}."
        )
    if layer.activity_regularizer is not None:
        raise ValueError(
            "A norm inside a recurrence cannot add a loss, so its activity_regularizer would do "
            f"nothing. Received one in {type(layer).__name__} for {slot}: give it to the recurrent "
            "layer, or give the norm a gamma_regularizer."
        )
    axis = getattr(layer, "axis", -1)
    if axis not in (-1, [-1], (-1,)):
        raise ValueError(
            f"A norm inside a recurrence normalizes the last axis. Received {type(layer).__name__} "
            f"with axis={axis}; leave axis at -1."
        )
    if isinstance(layer, LayerNormalization) and layer.rms_scaling:
        raise ValueError(
            "LayerNormalization(rms_scaling=True) cannot stand inside a recurrence: take "
            "keras_norm.VarianceNormalization(scale=True), which computes the same."
        )
    cls = type(layer)
    if cls is keras.layers.BatchNormalization:
        cls = BatchNormalization
    if issubclass(cls, BatchNormalization):
        for option in ("virtual_batch_size", "renorm", "synchronized"):
            if getattr(layer, option, None):
                raise ValueError(
                    f"BatchNormalization({option}={getattr(layer, option)}) cannot stand inside a "
                    "recurrence, where each timestep has its own batch statistics: "
                    f"leave {option} out."
                )
    if issubclass(cls, StatisticsNormalization) and cls.call not in CALLS:
        raise ValueError(
            f"{cls.__name__} has a call of its own, which a recurrence passes by: it hands a batch "
            "normalization the statistics of each timestep. Derive from keras.layers.Layer."
        )
    return cls, _unshared(layer.get_config())


def _unshared(config: Any) -> Any:
    """A configuration whose parts are made anew for each slot.

    While a model is loaded or saved Keras numbers what it has met, to give it back as one.
    """
    if isinstance(config, dict):
        return {k: _unshared(v) for k, v in config.items() if k != "shared_object_id"}
    return type(config)(map(_unshared, config)) if isinstance(config, list | tuple) else config
