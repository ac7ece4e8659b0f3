"""Validate, create and call the norms of a recurrent cell, such as its `kernel_norm`."""

import inspect
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_norm.layers.batch_norm import BatchNormalization
from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.normalization import Normalization
from keras_norm.ops.resets import count_timesteps
from keras_norm.rnn.candidate_normal import CandidateNormal
from keras_norm.typing import Config, Json, Tensor, TensorLike

# The `norm` argument of a cell: None, one layer for all norms, or a dict such as
# {"kernel_norm": layer}.
NormArgument: TypeAlias = keras.layers.Layer | Mapping[str, keras.layers.Layer | None] | None

# Names of norms whose beta shifts the candidate gate. A cell with `use_bias=False` has no bias, so
# `CandidateNormal` initializes the beta of the first of these norms.
CANDIDATE_SLOTS = (
    "cell_norm",
    "candidate_norm",
    "joint_norm",
    "kernel_candidate_norm",
    "kernel_norm",
)

# Names of the norms of x W, and names of the norms of h U, in the order of the columns. A cell with
# norms of x W + h U (norm_form="joint") has none of these norms.
KERNEL_SLOTS = ("kernel_norm", "kernel_candidate_norm")
RECURRENT_SLOTS = ("recurrent_norm", "recurrent_candidate_norm")


class Template(NamedTuple):
    """The class and the configuration of a norm, from which a cell creates copies."""

    cls: type[keras.layers.Layer]
    config: Config


class Slots:
    """The slots of a cell: named positions for norms, such as `kernel_norm`, with their norms.

    `Slots` is neither a Keras layer nor a Keras container, so Keras does not track the template as
    a sublayer of the cell.

    Args:
        norm: None, one layer for all slots, or a dict such as {"kernel_norm": layer}.
        widths: width of each slot of the cell, in the order of the slots' weights.

    Attributes:
        count_steps: whether a slot has statistics per timestep, so that the cell counts timesteps.
        has_per_sample_norm: whether a slot divides by a statistic of one sample, which can be zero.

    Raises:
        TypeError: `norm` is not None, a layer or a dict of layers.
        ValueError: a slot that the cell does not have, or a layer that cannot run in a recurrence,
            or slots that count timesteps in different ways.
    """

    def __init__(self, norm: NormArgument, widths: Mapping[str, int]) -> None:
        if isinstance(norm, Mapping):
            norm = {slot: layer for slot, layer in norm.items() if layer is not None} or None
        chosen = norm if isinstance(norm, Mapping) else dict.fromkeys(widths, norm)
        unknown = sorted(set(chosen) - set(widths))
        if unknown:
            raise ValueError(
                f"The argument norm has keys that are no norms of this cell: {', '.join(unknown)}. "
                f"Use the norms of this cell: {', '.join(widths)}."
            )
        self.norm = norm
        self.widths = dict(widths)
        self.templates = {
            slot: _make_template(slot, chosen[slot])
            for slot in widths
            if chosen.get(slot) is not None
        }
        classes = [template.cls for template in self.templates.values()]
        self.count_steps = any(getattr(cls, "per_timestep", False) for cls in classes)
        self._count_leading_padding = self._leading_padding_counts()
        self.has_per_sample_norm = not all(
            issubclass(cls, StatisticsNormalization) for cls in classes
        )

    def needs_alignment(self, training: bool) -> bool:
        """Return whether leading padding must be moved to the end before the loop over time.

        Statistics per timestep need it, unless they count leading padding. In training all batch
        statistics inside the loop need it, because each iteration has its own.
        """
        if self._count_leading_padding is not None:
            return not self._count_leading_padding
        looped = [t.cls for slot, t in self.templates.items() if slot not in KERNEL_SLOTS]
        return training and any(issubclass(cls, StatisticsNormalization) for cls in looped)

    def timesteps(self, time: int | Tensor, mask: Tensor | None, resets: Tensor | None) -> Tensor:
        """Return for each iteration of the loop the index of its timestep in the sequence, from 0.

        Args:
            time: number of timesteps.
            mask: bool (batch, time), or None.
            resets: bool (batch, time), or None.

        Returns:
            int (time,), or (time, batch) if the rows have resets and the cell counts timesteps.
        """
        if resets is None or not self.count_steps:
            return ops.arange(time)
        steps = count_timesteps(None if self._count_leading_padding else mask, resets)
        return ops.swapaxes(steps, 0, 1)

    def _leading_padding_counts(self) -> bool | None:
        """Return the value of `count_leading_padding` in all norms; None if no norm has it."""
        name = "count_leading_padding"
        counts = {
            slot: template.config.get(name, False)
            for slot, template in self.templates.items()
            if getattr(template.cls, "per_timestep", False)
        }
        if len({*counts.values()}) > 1:
            raise ValueError(
                f"All norms of a cell must have equal values of {name}. Received: {counts}. Set "
                f"{name} to the same value in each norm."
            )
        return next(iter(counts.values()), None)

    def initialize_candidate_beta(self, initializer: CandidateNormal) -> bool:
        """Set the beta initializer of the candidate gate's norm to `CandidateNormal`.

        A cell with `use_bias=False` needs this, because it has no bias to initialize. A beta
        initializer other than zeros is the user's choice and stays.

        Args:
            initializer: the `CandidateNormal` of the bias.

        Returns:
            Whether a norm of the candidate gate has a beta.
        """
        slot = next(slot for slot in CANDIDATE_SLOTS if slot in self.widths)
        config = self.templates[slot].config if slot in self.templates else {}
        given = config.get("beta_initializer")
        if not config.get("center") or given is None:
            return False
        if isinstance(keras.initializers.get(given), keras.initializers.Zeros):
            units = initializer.units
            gate = initializer.gate if self.widths[slot] > units else -1
            config["beta_initializer"] = initializer.for_cell(units, gate)
        return True

    def scale_remover(self) -> tuple[str, type[keras.layers.Layer]] | None:
        """Return name and class of a per-sample norm of W x, which removes the scale of x, or None.

        In the joint form the norms are of W x + U h, so the scale of x relative to h stays.
        """
        for slot in KERNEL_SLOTS:
            cls, _ = self.templates.get(slot, (StatisticsNormalization, {}))
            if not issubclass(cls, StatisticsNormalization):
                return slot, cls
        return None

    def create_layers(
        self, dtype: keras.DTypePolicy, trainable: bool
    ) -> dict[str, keras.layers.Layer]:
        """Create the norm layers of a cell, each with the name of its slot, such as "kernel_norm".

        Raises:
            ValueError: a layer that changes the shape of its inputs.
        """
        layers = {}
        for slot, (cls, config) in self.templates.items():
            layer = cls.from_config({**config, "name": slot, "dtype": dtype})
            layer.trainable = layer.trainable and trainable
            # Call the layer, because its `build` may not build its sublayers.
            x = keras.KerasTensor((None, self.widths[slot]), layer.compute_dtype)
            y = call_layer(layer, x, training=False, step=0)
            if y.shape != x.shape:
                raise ValueError(
                    f"A norm must keep the shape of its inputs. {cls.__name__} in {slot} turns "
                    f"shape {x.shape} into {y.shape}. Use a normalization layer."
                )
            layers[slot] = layer
        return layers


def call_layer(
    layer: keras.layers.Layer,
    x: Tensor,
    training: bool,
    mask: Tensor | None = None,
    step: TensorLike | None = None,
) -> Tensor:
    """Call a layer; pass `mask`, `training` and `step` only if its `call` has the argument."""
    given = {"mask": mask, "training": training, "step": step}
    takes = inspect.signature(layer.call).parameters
    return layer(x, **{name: value for name, value in given.items() if name in takes})


def _make_template(slot: str, layer: keras.layers.Layer) -> Template:
    """Validate the layer that is a cell's norm `slot`; return the class and config of the layer.

    keras.layers.BatchNormalization is replaced by keras_norm.BatchNormalization. Inside a loop the
    Keras layer receives no mask and updates its statistics at every timestep.
    """
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(
            "The argument norm must be None, a normalization layer, or a dict of layers, such as "
            f"norm=keras_norm.LayerNormalization(epsilon=1e-5). Received: {layer!r}."
        )
    if layer.activity_regularizer is not None:
        raise ValueError(
            "The activity_regularizer of a norm inside a recurrence has no effect. Received "
            f"activity_regularizer in {type(layer).__name__} for {slot}. Pass it to the recurrent "
            "layer, or set gamma_regularizer of the norm."
        )
    axis = getattr(layer, "axis", -1)
    if axis not in (-1, [-1], (-1,)):
        raise ValueError(
            "A norm inside a recurrence must normalize the last axis. Received "
            f"{type(layer).__name__} with axis={axis}. Leave axis at -1."
        )
    if type(layer) is keras.layers.BatchNormalization:
        layer = BatchNormalization(**layer.get_config())
    if isinstance(layer, Normalization):
        layer.require_recurrence_options()
    cls = type(layer)
    is_ours = cls.call.__module__.startswith("keras_norm.")
    if issubclass(cls, StatisticsNormalization) and not is_ours:
        raise ValueError(
            f"{cls.__name__} overrides the call of a batch normalization. A recurrence does not "
            "run this call, because it has its own computation of batch normalizations. Derive "
            f"{cls.__name__} from keras.layers.Layer."
        )
    return Template(cls, _remove_object_ids(layer.get_config()))


def _remove_object_ids(config: Json) -> Json:
    """Remove Keras' `shared_object_id` from a config, so that norms do not share sublayers.

    While Keras saves or loads a model, it numbers the objects, and creates no second object with
    the same number.
    """
    if isinstance(config, dict):
        return {k: _remove_object_ids(v) for k, v in config.items() if k != "shared_object_id"}
    return (
        type(config)(map(_remove_object_ids, config))
        if isinstance(config, list | tuple)
        else config
    )


def deserialize_norm(config: Config) -> Config:
    """Convert the serialized `norm` in a cell's configuration to Keras layers."""
    if config.get("norm") is None:
        return config
    return {**config, "norm": keras.saving.deserialize_keras_object(config["norm"])}
