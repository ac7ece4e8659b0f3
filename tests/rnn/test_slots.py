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


def names(layer, weights):
    """Return the slot and the name of each weight, such as "kernel_norm/gamma"."""
    known = dict(kinds.variables(layer.cell))
    for slot, norm in layer.cell.slot_layers().items():
        for name in ("moving_mean", "moving_variance", "update_count"):
            if hasattr(norm, name):
                known[f"{slot}/{name}"] = getattr(norm, name)
    by_identity = {id(variable): name for name, variable in known.items()}
    return [by_identity[id(weight)] for weight in weights]


# Templates --------------------------------------------------------------------------------------


@every_kind
def test_every_slot_has_its_own_copy_of_the_template(kind):
    template = LayerNormalization(epsilon=0.5)
    layers = kinds.build(kind, template).cell.slot_layers()
    assert {slot: norm.gamma.shape[0] for slot, norm in layers.items()} == {
        slot: width * UNITS for slot, width in kind.slots.items()
    }
    assert {norm.epsilon for norm in layers.values()} == {0.5}
    assert len({id(norm) for norm in [template, *layers.values()]}) == len(layers) + 1
    assert not template.built
    assert [norm.name for norm in layers.values()] == list(kind.slots)


@every_kind
def test_a_dict_fills_its_slots_in_the_order_of_the_cell(kind):
    slots = list(kind.slots)
    norm = {slot: LayerNormalization(epsilon=k) for k, slot in enumerate(reversed(slots))}
    cell = kinds.build(kind, norm).cell
    assert list(cell.slot_layers()) == slots
    assert [layer.epsilon for layer in cell.slot_layers().values()] == [
        norm[slot].epsilon for slot in slots
    ]


@every_kind
def test_an_empty_dict_creates_no_norms(kind):
    layer, without_norm = kinds.build(kind, {}), kinds.build(kind)
    assert layer.cell.slot_layers() == {}
    if kind is not kinds.GRU:  # a GRU with norm=None has two biases
        kinds.assert_close(layer(kinds.inputs()), without_norm(kinds.inputs()), 1e-12)


@every_kind
def test_layers_of_one_template_share_no_weights(kind):
    template = LayerNormalization()
    first, second = kinds.build(kind, template), kinds.build(kind, template)
    first.cell.kernel_norm.gamma.assign(first.cell.kernel_norm.gamma * 2.0)
    assert not np.allclose(first.cell.kernel_norm.gamma, second.cell.kernel_norm.gamma)


@every_kind
def test_norms_have_the_dtype_policy_of_their_cell(kind):
    cell = kinds.build(kind, LayerNormalization(dtype="float16"), dtype="mixed_bfloat16").cell
    assert {norm.compute_dtype for norm in cell.slot_layers().values()} == {"bfloat16"}
    assert {weight.dtype for weight in cell.weights} == {"float32"}


@every_kind
def test_norms_keep_the_options_of_the_template(kind):
    template = LayerNormalization(
        center=False, gamma_initializer=keras.initializers.Constant(0.3), gamma_regularizer="l2"
    )
    layer = kind.layer(UNITS, norm=template)
    layer.build((None, None, FEATURES))
    for norm in layer.cell.slot_layers().values():
        assert norm.beta is None
        np.testing.assert_allclose(norm.gamma, 0.3)
    assert len(layer.losses) == len(kind.slots)


# Order of weights -------------------------------------------------------------------------------


@every_kind
def test_weights_are_ordered_kernels_bias_norms(kind):
    expected = ["kernel", "recurrent_kernel", "bias"]
    for slot in kind.slots:
        expected += [f"{slot}/gamma", f"{slot}/beta"]
    layer = kinds.build(kind, LayerNormalization())
    assert names(layer, layer.weights) == expected


@every_kind
def test_moving_statistics_are_ordered_by_slot(kind):
    layer = kinds.build(kind, TimestepBatchNormalization(3))
    assert names(layer, layer.trainable_weights)[3:] == [
        f"{slot}/{name}" for slot in kind.slots for name in ("gamma", "beta")
    ]
    assert names(layer, layer.non_trainable_weights) == [
        f"{slot}/{name}"
        for slot in kind.slots
        for name in ("moving_mean", "moving_variance", "update_count")
    ]


def test_weights_of_the_joint_form_are_ordered_by_gate():
    layer = kinds.build(kinds.LSTM, LayerNormalization(), norm_form="joint")
    expected = ["kernel", "recurrent_kernel", "bias"]
    for gate in ("input", "forget", "cell", "output"):
        expected += [f"{gate}_norm/gamma", f"{gate}_norm/beta"]
    assert names(layer, layer.weights) == expected


# Keras layers -----------------------------------------------------------------------------------


@every_kind
def test_keras_layer_normalization_in_a_slot_equals_ours(kind):
    ours = kinds.build(kind, LayerNormalization())
    theirs = kinds.build(kind, keras.layers.LayerNormalization())
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-12)


@every_kind
def test_keras_rms_normalization_in_a_slot_equals_ours(kind):
    ours = kinds.build(kind, keras_norm.RMSNormalization())
    theirs = kinds.build(kind, keras.layers.RMSNormalization())
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-10)


@every_kind
def test_keras_batch_normalization_in_a_slot_equals_ours_at_inference(kind):
    ours = kinds.build(kind, BatchNormalization())
    theirs = kinds.build(kind, keras.layers.BatchNormalization())
    for layer in (ours, theirs):
        kinds.randomize_statistics(layer)
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-12)


@every_kind
def test_keras_batch_normalization_in_a_slot_updates_its_statistics(kind):
    """The layer is replaced by keras_norm.BatchNormalization."""
    layer = kinds.build(kind, keras.layers.BatchNormalization(momentum=0.5))
    before = layer.cell.recurrent_norm.moving_variance.numpy()
    outputs, *_ = layer(kinds.inputs(), training=True)
    assert np.isfinite(outputs).all()
    assert not np.allclose(layer.cell.recurrent_norm.moving_variance, before)


# Custom layers ----------------------------------------------------------------------------------


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.layers.Layer):
    """A layer with a sublayer and without `build` and `compute_output_shape`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.LayerNormalization(dtype=self.dtype_policy)

    def call(self, x):
        return 2.0 * self.inner(x)


@every_kind
def test_a_custom_norm_without_compute_output_shape_works_in_a_slot(kind):
    own = kinds.build(kind, Doubled())
    ours = kinds.build(kind, LayerNormalization())
    kernels, affine = own.get_weights()[:3], own.get_weights()[3:]
    ours.set_weights([*kernels, *(2.0 * weight for weight in affine)])
    kinds.assert_close(own(kinds.inputs()), ours(kinds.inputs()), 1e-12)


def test_a_custom_norm_without_compute_output_shape_trains_in_a_model():
    model = keras.Sequential([kinds.SIMPLE_RNN.layer(UNITS, norm=Doubled()), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(4, 3, FEATURES))
    history = model.fit(x, np.ones((4, 1)), epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]


# Few input features -----------------------------------------------------------------------------


def warnings_of(function):
    """Return the warnings of `function` about few features, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    messages = [str(warning.message) for warning in caught]
    return [text for text in messages if text.startswith("A norm of W x removes")], result


def model_of(layer, features):
    return keras.Sequential([keras.Input((None, features)), layer])


@every_kind
@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_building_for_few_features_warns_once(kind, features):
    layer = kind.preset("LayerNorm")(UNITS)
    messages, _ = warnings_of(lambda: (model_of(layer, features), layer(np.ones((2, 3, features)))))
    assert len(messages) == (features < 4)
    for text in messages:
        assert f"last dimension is {features}, and LayerNormalization in kernel_norm" in text
        named = [slot for slot in kind.slots if f"'{slot}': ..." in text]
        assert named == [slot for slot in kind.slots if not slot.startswith("kernel")]


def test_a_norm_of_w_x_reduces_one_feature_to_its_sign():
    """The warning about few features says so."""
    layer = kinds.LSTM.preset("LayerNorm")(UNITS, epsilon=1e-12, dtype="float64")
    x = kinds.draw(2, 5, 1)
    kinds.assert_close(layer(x), layer(np.sign(x)), 1e-6)
    joint = kinds.LSTM.preset("LayerNorm")(UNITS, norm_form="joint", dtype="float64")
    assert np.abs(joint(x) - joint(np.sign(x))).max() > 0.01


@every_kind
@pytest.mark.parametrize(
    "norm",
    [
        None,
        {"recurrent_norm": LayerNormalization()},
        BatchNormalization(),
        TimestepBatchNormalization(3),
    ],
    ids=["none", "left out", "batch", "timestep"],
)
def test_norms_that_keep_the_scale_of_a_feature_do_not_warn(kind, norm):
    assert warnings_of(lambda: model_of(kind.layer(UNITS, norm=norm), 1))[0] == []


def test_the_joint_form_does_not_warn():
    layer = kinds.LSTM.layer(UNITS, norm=LayerNormalization(), norm_form="joint")
    assert warnings_of(lambda: model_of(layer, 1))[0] == []


@every_kind
def test_cells_in_keras_rnn_warn_about_few_features(kind):
    cell = kind.cell(UNITS, norm=keras_norm.RMSNormalization())
    (text,), _ = warnings_of(lambda: model_of(keras.layers.RNN(cell), 2))
    assert "RMSNormalization in kernel_norm" in text


@pytest.mark.parametrize(
    "make",
    [
        lambda: kinds.LSTM.preset("LayerNorm")(UNITS),
        lambda: keras.layers.Bidirectional(kinds.GRU.preset("LayerNorm")(UNITS)),
        lambda: keras.layers.RNN(kinds.LSTM.preset("LayerNorm", "Cell")(UNITS)),
    ],
    ids=["layer", "bidirectional", "cell"],
)
def test_loading_or_copying_a_model_does_not_warn_again(make, tmp_path):
    model = model_of(make(), 1)
    model.save(tmp_path / "model.keras")

    def copies():
        keras.models.load_model(tmp_path / "model.keras")
        rebuild_model(model)

    assert warnings_of(copies)[0] == []


# Errors -----------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("norm", ["layer", 1, LayerNormalization, [LayerNormalization()]], ids=str)
def test_a_norm_that_is_not_a_layer_raises(kind, norm):
    assert_refused(lambda: kind.layer(UNITS, norm=norm), "norm must be", repr(norm)[:20])


@every_kind
def test_none_in_a_dict_leaves_the_slot_empty(kind):
    norm = {"kernel_norm": None, "recurrent_norm": LayerNormalization()}
    cell = kind.layer(UNITS, norm=norm).cell
    assert list(cell.slots.templates) == ["recurrent_norm"]


@every_kind
def test_changing_the_norm_dict_later_has_no_effect(kind):
    norm = {"kernel_norm": LayerNormalization()}
    cell = kind.layer(UNITS, norm=norm).cell
    norm["recurrent_norm"] = LayerNormalization()
    assert list(cell.norm) == list(cell.slots.templates) == ["kernel_norm"]


@every_kind
def test_a_norm_that_changes_the_shape_raises(kind):
    layer = kind.layer(UNITS, norm=keras.layers.Dense(UNITS + 1))
    assert_refused(lambda: layer.build((None, 5, 2)), "keep the shape", "Dense")


@every_kind
def test_keras_batch_normalization_is_replaced_by_ours(kind):
    layer = kind.layer(UNITS, norm=keras.layers.BatchNormalization(momentum=0.5))
    layer.build((None, 5, 2))
    norm = layer.cell.recurrent_norm
    assert isinstance(norm, BatchNormalization)
    assert norm.momentum == 0.5
    before = norm.get_weights()
    layer(np.ones((3, 5, 2), "float32"), mask=np.zeros((3, 5), bool), training=True)
    for old, new in zip(before, norm.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@every_kind
def test_an_unknown_slot_raises_with_the_names_of_the_slots(kind):
    norm = {"no_slot": LayerNormalization()}
    assert_refused(lambda: kind.layer(UNITS, norm=norm), "no_slot", *kind.slots)


@every_kind
@pytest.mark.parametrize(
    "norm",
    [
        LayerNormalization(activity_regularizer="l2"),
        TimestepBatchNormalization(3, activity_regularizer="l2"),
        keras.layers.GroupNormalization(2, activity_regularizer="l2"),
    ],
    ids=lambda norm: type(norm).__name__,
)
def test_an_activity_regularizer_of_a_norm_raises(kind, norm):
    """Both the compiled path and the loop would ignore its loss."""
    assert_refused(
        lambda: kind.layer(UNITS, norm={"recurrent_norm": norm}),
        f"activity_regularizer in {type(norm).__name__} for recurrent_norm",
        "to the recurrent layer",
    )


@pytest.mark.parametrize("axis", [0, 1, [1, 2]])
def test_a_norm_over_another_axis_raises(axis):
    assert_refused(
        lambda: kinds.LSTM.layer(UNITS, norm=LayerNormalization(axis=axis)), f"axis={axis}"
    )


@pytest.mark.parametrize(
    "options", [{"virtual_batch_size": 2}, {"renorm": True}, {"synchronized": True}], ids=str
)
def test_batch_normalization_options_that_regroup_the_batch_raise(options):
    (name,) = options
    assert_refused(lambda: kinds.LSTM.layer(UNITS, norm=BatchNormalization(**options)), name)


def test_a_batch_normalization_that_overrides_call_raises():
    class Squared(keras_norm.BatchNormalization):
        def call(self, inputs, training=None, mask=None):
            return super().call(inputs, training=training, mask=mask) ** 2

    assert_refused(lambda: kinds.LSTM.layer(4, norm=Squared()), "Squared overrides the call")


@keras.saving.register_keras_serializable("tests.rnn.test_slots")
class Around(keras.layers.Layer):
    """A layer with a sublayer in its configuration."""

    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, x):
        return self.inner(x)

    def get_config(self):
        inner = keras.saving.serialize_keras_object(self.inner)
        return {**super().get_config(), "inner": inner}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "inner": keras.saving.deserialize_keras_object(config["inner"])})


def test_slots_of_a_loaded_model_share_no_layer(tmp_path):
    """Keras reuses a loaded object of the same `shared_object_id`."""
    layer = kinds.SIMPLE_RNN.layer(4, norm=Around(LayerNormalization()))
    model = keras.Sequential([keras.Input((5, 3)), layer])
    kinds.randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    assert len(loaded.weights) == len(model.weights) == 7
    np.testing.assert_array_equal(loaded(x), model(x))


def test_rms_scaling_raises_with_the_name_of_the_equivalent_layer():
    assert_refused(
        lambda: kinds.LSTM.layer(UNITS, norm=LayerNormalization(rms_scaling=True)),
        "rms_scaling",
        "VarianceNormalization(scale=True)",
    )
