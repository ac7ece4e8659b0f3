"""Layers and cells whose norms are all of one kind, such as `LayerNormLSTM`."""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import keras

from keras_norm.layers.layer_norm import LayerNormalization
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.docstrings import PresetText, preset_docstring


class LayerNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `LayerNormalization`, as in `LayerNormLSTM`."""

    HIDDEN: ClassVar = ("norm",)

    def __init__(self, units: int, *args: Any, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(units, LayerNormalization(epsilon=epsilon), *args, **kwargs)
        self.epsilon = epsilon


class BatchNormPreset(NormCell):
    """Mixin that sets the `norm` of a cell to `TimestepBatchNormalization`, as in `BatchNormLSTM`.

    As in the paper, gamma is initialized to 0.1, because a deviation of 1 saturates tanh
    (section 4). Only the state norm has a beta, because the bias shifts the other norms
    (section 3).
    """

    HIDDEN: ClassVar = ("norm",)

    def __init__(
        self,
        units: int,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        debias: bool = True,
        *args: Any,
        synchronized: bool = False,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        def batch_norm(slot: str) -> TimestepBatchNormalization:
            return TimestepBatchNormalization(
                max_timesteps,
                momentum,
                epsilon,
                center=slot == "state_norm",
                debias=debias,
                synchronized=synchronized,
                min_sequences=min_sequences,
                count_leading_padding=count_leading_padding,
                gamma_initializer=keras.initializers.Constant(0.1),
            )

        slots = self.slot_sizes(kwargs.get("norm_form", "separate"))
        super().__init__(units, {slot: batch_norm(slot) for slot in slots}, *args, **kwargs)
        self.max_timesteps = max_timesteps
        self.momentum = momentum
        self.epsilon = epsilon
        self.debias = debias
        self.synchronized = synchronized
        self.min_sequences = min_sequences
        self.count_leading_padding = count_leading_padding


class Preset(NamedTuple):
    """A kind of norm, for which `create_presets` creates classes such as `LayerNormLSTM`.

    Args:
        prefix: first part of the class names, such as "LayerNorm".
        mixin: base class of the cells, which sets the argument `norm`.
        text: text about the norm for the docstrings.
    """

    prefix: str
    mixin: type[NormCell]
    text: PresetText


PRESETS = {
    "layer": Preset(
        "LayerNorm",
        LayerNormPreset,
        PresetText(
            title="LayerNorm",
            symbol="LN",
            notes="Every LayerNorm (LN) has its own gamma and beta.",
            arguments="    epsilon: number that the norms add to the variance.",
            example="",
            reference="",
        ),
    ),
    "batch": Preset(
        "BatchNorm",
        BatchNormPreset,
        PresetText(
            title="recurrent BatchNorm",
            symbol="BN_t",
            notes="""\
BN_t uses the batch statistics of timestep t in training, and the moving statistics of timestep
t at inference. Every BN_t has its own statistics and gamma. All timesteps share gamma, which is
initialized to 0.1. Only the norm of c, in an LSTM, has a beta.

Timestep 0 of a sequence is its first unmasked timestep, in the order of the loop. So padding
on either side changes no output, also with `go_backwards=True` and in `Bidirectional`. Later
masked timesteps count.

The statistics of few sequences are noise. So in training, a timestep that fewer than
`min_sequences` sequences of a padded batch reach has the statistics of the last timestep that
enough reach. Give batches of 32 or more, with a mask. With sequences of one length this is the
equation of the paper.

Every call counts timesteps from 0. If you cut a sequence into pieces with `stateful=True` or
`initial_state`, every piece uses the statistics of the first timesteps.
The moving statistics lag behind the weights: call `keras_norm.recalibrate` before you export.""",
            arguments="""\
    max_timesteps: number of timesteps with their own statistics. Later timesteps share the
        statistics of the last one.
    momentum: weight of earlier batches in the moving statistics; None averages all batches.
    epsilon: number that the norms add to the variance.
    debias: whether to correct the moving statistics for their initial values 0 and 1.
    min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
        2 uses the statistics of every timestep. Padded batches then train worse.
    count_leading_padding: whether timesteps before the first unmasked timestep count too. The
        default of `from_config` is True, so that files of earlier revisions give their old
        outputs.
    synchronized: whether the replicas of a distributed step normalize with the statistics of
        the global batch. The moving statistics are those of the global batch with both values.
        TensorFlow does not support it, and JAX always does it.""",
            example=", max_timesteps=5",
            reference="""\
    Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, eq. 6-8
    (an LSTM).""",
        ),
    ),
}


def create_presets(layer: type[CellLayer], module: str) -> Iterator[type[keras.layers.Layer]]:
    """Create a layer and a cell for each norm, such as `LayerNormLSTM` and `LayerNormLSTMCell`.

    Args:
        layer: a layer that takes any norm, such as `NormLSTM`.
        module: the module that will have the classes as attributes.
    """
    register = keras.saving.register_keras_serializable(package="keras_norm")
    for prefix, mixin, text in PRESETS.values():
        name = prefix + layer.__name__.removeprefix("Norm")
        base = layer.cell_class
        doc = preset_docstring(base, f"{name}Cell", text, is_cell=True)
        cell = type(f"{name}Cell", (mixin, base), {"__doc__": doc, "__module__": module})
        yield register(cell)
        doc = preset_docstring(layer, name, text, is_cell=False)
        attributes = {"cell_class": cell, "__doc__": doc, "__module__": module}
        yield register(type(name, (layer,), attributes))
