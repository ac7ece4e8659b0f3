"""Norms in the slots of a cell: templates, weights, Keras layers, custom layers, errors."""

import warnings

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import BatchNormalization, LayerNormalization, TimestepBatchNormalization
from keras_norm.clone import rebuild_model
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, UNITS

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def names(weights, cell):
    """Return the slot and the name of each weight, such as "kernel_norm/gamma"."""
    known = dict(kinds.variables(cell))
    for slot, norm in cell.slot_layers().items():
        known |= {f"{slot}/{weight.name}": weight for weight in kinds.statistics_in(norm)}
    by_identity = {id(variable): name for name, variable in known.items()}
    return [by_identity[id(weight)] for weight in weights]


# Templates and weights --------------------------------------------------------------------------


@every_kind
def test_every_slot_has_its_own_copy_of_the_template_with_its_options(kind):
    constant = keras.initializers.Constant(0.3)
    template = LayerNormalization(
        epsilon=0.5, center=False, gamma_initializer=constant, gamma_regularizer="l2"
    )
    one, two = (kind.layer(UNITS, norm=template) for _ in range(2))
    for layer in (one, two):
        layer.build((None, None, FEATURES))
    layers = one.cell.slot_layers()
    assert [norm.name for norm in layers.values()] == list(layers) == list(kind.slots)
    for slot, norm in layers.items():
        assert (norm.epsilon, norm.beta) == (0.5, None)
        np.testing.assert_allclose(norm.gamma, np.full(kind.slots[slot] * UNITS, 0.3))
    assert len(one.losses) == len(kind.slots)
    copies = [*layers.values(), *two.cell.slot_layers().values()]
    assert len({id(norm.gamma) for norm in copies}) == 2 * len(kind.slots)
    assert not template.built


@every_kind
def test_a_dict_fills_its_slots_in_the_order_of_the_cell(kind):
    slots = list(kind.slots)
    norm = {slot: LayerNormalization(epsilon=k) for k, slot in enumerate(reversed(slots))}
    given = {**norm, slots[0]: None}
    cell = kind.layer(UNITS, norm=given).cell
    given[slots[0]] = LayerNormalization()  # a later change has no effect
    assert cell.norm.keys() == {*slots[1:]}
    cell.build((None, FEATURES))
    assert list(cell.slot_layers()) == list(cell.slots.templates) == slots[1:]
    assert [layer.epsilon for layer in cell.slot_layers().values()] == [
        norm[slot].epsilon for slot in slots[1:]
    ]
    assert kinds.build(kind, {}).cell.slot_layers() == {}


def test_norms_have_the_dtype_policy_of_their_cell():
    norm = LayerNormalization(dtype="float16")
    cell = kinds.build(kinds.LSTM, norm, dtype="mixed_bfloat16").cell
    assert {norm.compute_dtype for norm in cell.slot_layers().values()} == {"bfloat16"}
    assert {weight.dtype for weight in cell.weights} == {"float32"}


@every_kind
def test_weights_are_ordered_kernels_bias_norms_and_statistics_by_slot(kind):
    layer = kinds.build(kind, TimestepBatchNormalization(3))
    own = ["kernel", "recurrent_kernel", "bias"]
    affine = [f"{slot}/{name}" for slot in kind.slots for name in ("gamma", "beta")]
    moving = ("moving_mean", "moving_variance", "update_count")
    for owner in (layer, layer.cell):
        assert names(owner.trainable_weights, layer.cell) == own + affine
    statistics = [f"{slot}/{name}" for slot in kind.slots for name in moving]
    assert names(layer.non_trainable_weights, layer.cell) == statistics
    if kind is kinds.LSTM:
        joint = kinds.build(kind, LayerNormalization(), norm_form="joint")
        gates = ("input", "forget", "cell", "output")
        affine = [f"{gate}_norm/{name}" for gate in gates for name in ("gamma", "beta")]
        assert names(joint.weights, joint.cell) == own + affine


# Keras layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kinds.LSTM, "LayerNormalization"),
        (kinds.GRU, "RMSNormalization"),
        (kinds.SIMPLE_RNN, "BatchNormalization"),
    ],
    ids=str,
)
def test_a_keras_normalization_in_a_slot_equals_ours_at_inference(kind, name):
    layers = [kinds.build(kind, getattr(m, name)()) for m in (keras.layers, keras_norm)]
    for layer in layers:
        kinds.randomize_statistics(layer)
    kinds.assert_close(*(layer(kinds.inputs()) for layer in layers), 1e-10)


def test_keras_batch_normalization_is_replaced_by_ours():
    layer = kinds.build(kinds.GRU, keras.layers.BatchNormalization(momentum=0.5))
    norm, before = layer.cell.recurrent_norm, layer.get_weights()
    assert isinstance(norm, BatchNormalization)
    assert norm.momentum == 0.5
    layer(kinds.inputs(), mask=np.zeros_like(kinds.MASK), training=True)
    kinds.assert_close(layer.get_weights(), before, 0)
    layer(kinds.inputs(), training=True)
    assert not np.allclose(norm.moving_variance, 1.0)


# Custom layers ----------------------------------------------------------------------------------


@keras.saving.register_keras_serializable("tests.rnn.test_slots")
class Doubled(keras.layers.Layer):
    """A layer with a sublayer in its configuration, without `build`, `compute_output_shape`."""

    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, x):
        return 2.0 * self.inner(x)

    def get_config(self):
        inner = keras.saving.serialize_keras_object(self.inner)
        return {**super().get_config(), "inner": inner}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "inner": keras.saving.deserialize_keras_object(config["inner"])})


def test_custom_norms_in_slots_share_no_layer_also_in_a_loaded_model(tmp_path):
    """Keras reuses a loaded object of the same `shared_object_id`."""
    norms = Doubled(LayerNormalization()), LayerNormalization()
    own, ours = (kinds.build(kinds.GRU, norm, dtype="float32") for norm in norms)
    kernels, affine = own.get_weights()[:3], own.get_weights()[3:]
    ours.set_weights([*kernels, *(2.0 * weight for weight in affine)])
    x = kinds.inputs().astype("float32")
    kinds.assert_close(own(x), ours(x), 1e-5)
    inputs = keras.Input((None, FEATURES))
    keras.Model(inputs, own(inputs)).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(own.weights) == 3 + 2 * len(kinds.GRU.slots)
    kinds.assert_close(loaded(x), own(x), 0)


# Few input features -----------------------------------------------------------------------------


def warnings_of(function, begin="A norm of W x removes"):
    """Return the warnings of `function` about few features, or with another beginning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    messages = [str(warning.message) for warning in caught]
    return [text for text in messages if text.startswith(begin)]


def model_of(layer, features):
    return keras.Sequential([keras.Input((None, features)), layer])


@every_kind
@pytest.mark.parametrize("features", [1, 3, 4])
def test_building_for_few_features_warns_once(kind, features):
    layer = kind.preset("LayerNorm")(UNITS)
    x = np.ones((2, 3, features))
    messages = warnings_of(lambda: (model_of(layer, features), layer(x)))
    assert len(messages) == (features < 4)
    for text in messages:
        assert f"last dimension is {features}, and LayerNormalization in kernel_norm" in text
        named = [slot for slot in kind.slots if f"'{slot}': ..." in text]
        assert named == [slot for slot in kind.slots if not slot.startswith("kernel")]


def test_a_layer_norm_of_a_projection_of_one_or_two_units_warns():
    def build(units):
        return lambda: kinds.build(kinds.LSTM, LayerNormalization(), projection_units=units)

    for units in (1, 2):
        (text,) = warnings_of(build(units), "A LayerNorm of 1 unit")
        assert f"projection_units={units}, and LayerNormalization in projection_norm." in text
        assert "'state_norm': ...}" in text
    assert warnings_of(build(3), "A LayerNorm of 1 unit") == []


@every_kind
def test_norms_that_keep_the_scale_of_a_feature_do_not_warn(kind):
    left_out, layer_norm = {"recurrent_norm": LayerNormalization()}, LayerNormalization()
    norms = [None, left_out, BatchNormalization(), TimestepBatchNormalization(3)]
    layers = [kind.layer(UNITS, norm=norm) for norm in norms]
    if kind is kinds.LSTM:
        layers.append(kind.layer(UNITS, norm=layer_norm, norm_form="joint"))
    for layer in layers:
        assert warnings_of(lambda layer=layer: model_of(layer, 1)) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: kinds.LSTM.preset("LayerNorm")(UNITS),
        lambda: keras.layers.Bidirectional(kinds.GRU.preset("LayerNorm")(UNITS)),
        lambda: keras.layers.RNN(kinds.LSTM.cell(UNITS, norm=keras_norm.RMSNormalization())),
    ],
    ids=["layer", "bidirectional", "cell"],
)
def test_a_new_model_warns_and_a_loaded_or_copied_model_does_not(make, tmp_path):
    models = []
    assert (
        "ormalization in kernel_norm" in warnings_of(lambda: models.append(model_of(make(), 1)))[0]
    )
    models[0].save(tmp_path / "model.keras")

    def copies():
        keras.models.load_model(tmp_path / "model.keras")
        rebuild_model(models[0])

    assert warnings_of(copies) == []


# Errors -----------------------------------------------------------------------------------------


class Squared(BatchNormalization):
    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training=training, mask=mask) ** 2


LAYER_NORMS = [
    (LayerNormalization(axis=0), ["axis=0"]),
    (LayerNormalization(axis=[1, 2]), ["axis=[1, 2]"]),
    (LayerNormalization(rms_scaling=True), ["rms_scaling", "VarianceNormalization(scale=True)"]),
]
WRONG_TYPES = ["layer", 1, LayerNormalization, [LayerNormalization()]]
REGROUPING = [{"virtual_batch_size": 2}, {"renorm": True}]
# Both the compiled path and the loop would ignore the loss of the regularizer.
REGULARIZED = [
    LayerNormalization(activity_regularizer="l2"),
    TimestepBatchNormalization(3, activity_regularizer="l2"),
    keras.layers.GroupNormalization(2, activity_regularizer="l2"),
]
REFUSED = [
    *LAYER_NORMS,
    (Squared(), ["Squared overrides the call"]),
    *((norm, ["norm must be", repr(norm)[:20]]) for norm in WRONG_TYPES),
    *((BatchNormalization(**options), list(options)) for options in REGROUPING),
    *(
        ({"recurrent_norm": norm}, [f"activity_regularizer in {type(norm).__name__} for recurrent"])
        for norm in REGULARIZED
    ),
]


@every_kind
@pytest.mark.parametrize(("norm", "fragments"), REFUSED, ids=str)
def test_a_layer_that_cannot_run_in_a_recurrence_raises(kind, norm, fragments):
    assert_refused(lambda: kind.layer(UNITS, norm=norm), *fragments)


@every_kind
def test_an_unknown_slot_or_a_norm_that_changes_the_shape_raises(kind):
    norm = {"no_slot": LayerNormalization()}
    assert_refused(lambda: kind.layer(UNITS, norm=norm), "no_slot", *kind.slots)
    layer = kind.layer(UNITS, norm=keras.layers.Dense(UNITS + 1))
    assert_refused(lambda: layer.build((None, 5, 2)), "keep the shape", "Dense")
