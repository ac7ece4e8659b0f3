"""What may fill a slot of a cell, and how it is filled."""

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
    """The slot and name of each weight, such as "kernel_norm/gamma"."""
    known = dict(kinds.variables(layer.cell))
    for slot, norm in layer.cell.slot_layers().items():
        for name in ("moving_mean", "moving_variance", "update_count"):
            if hasattr(norm, name):
                known[f"{slot}/{name}"] = getattr(norm, name)
    by_identity = {id(variable): name for name, variable in known.items()}
    return [by_identity[id(weight)] for weight in weights]


# Templates --------------------------------------------------------------------------------------


@every_kind
def test_template_fills_every_slot_with_a_copy_of_its_own(kind):
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
def test_dict_fills_the_slots_it_names_in_the_order_of_the_cell(kind):
    slots = list(kind.slots)
    norm = {slot: LayerNormalization(epsilon=k) for k, slot in enumerate(reversed(slots))}
    cell = kinds.build(kind, norm).cell
    assert list(cell.slot_layers()) == slots
    assert [layer.epsilon for layer in cell.slot_layers().values()] == [
        norm[slot].epsilon for slot in slots
    ]


@every_kind
def test_empty_dict_has_no_norms_and_the_normed_equation(kind):
    layer, plain = kinds.build(kind, {}), kinds.build(kind)
    assert layer.cell.slot_layers() == {}
    if kind is not kinds.GRU:  # whose norm=None has two biases
        kinds.assert_close(layer(kinds.inputs()), plain(kinds.inputs()), 1e-12)


@every_kind
def test_one_template_serves_several_layers(kind):
    template = LayerNormalization()
    first, second = kinds.build(kind, template), kinds.build(kind, template)
    first.cell.kernel_norm.gamma.assign(first.cell.kernel_norm.gamma * 2.0)
    assert not np.allclose(first.cell.kernel_norm.gamma, second.cell.kernel_norm.gamma)


@every_kind
def test_norms_follow_the_dtype_of_their_cell(kind):
    cell = kinds.build(kind, LayerNormalization(dtype="float16"), dtype="mixed_bfloat16").cell
    assert {norm.compute_dtype for norm in cell.slot_layers().values()} == {"bfloat16"}
    assert {weight.dtype for weight in cell.weights} == {"float32"}


@every_kind
def test_options_of_the_template_are_kept(kind):
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
def test_weights_are_ordered_kernels_bias_then_the_norms(kind):
    expected = ["kernel", "recurrent_kernel", "bias"]
    for slot in kind.slots:
        expected += [f"{slot}/gamma", f"{slot}/beta"]
    layer = kinds.build(kind, LayerNormalization())
    assert names(layer, layer.weights) == expected


@every_kind
def test_moving_statistics_are_ordered_as_their_norms(kind):
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


# Layers of Keras --------------------------------------------------------------------------------


@every_kind
def test_keras_layer_normalization_is_ours(kind):
    ours = kinds.build(kind, LayerNormalization())
    theirs = kinds.build(kind, keras.layers.LayerNormalization())
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-12)


@every_kind
def test_keras_rms_normalization_is_ours(kind):
    ours = kinds.build(kind, keras_norm.RMSNormalization())
    theirs = kinds.build(kind, keras.layers.RMSNormalization())
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-10)


@every_kind
def test_keras_batch_normalization_at_inference_is_ours(kind):
    ours = kinds.build(kind, BatchNormalization())
    theirs = kinds.build(kind, keras.layers.BatchNormalization())
    for layer in (ours, theirs):
        kinds.randomize_statistics(layer)
    kinds.assert_close(theirs(kinds.inputs()), ours(kinds.inputs()), 1e-12)


@every_kind
def test_keras_batch_normalization_trains(kind):
    """Its one average moves at every step."""
    layer = kinds.build(kind, keras.layers.BatchNormalization(momentum=0.5))
    before = layer.cell.recurrent_norm.moving_variance.numpy()
    outputs, *_ = layer(kinds.inputs(), training=True)
    assert np.isfinite(outputs).all()
    assert not np.allclose(layer.cell.recurrent_norm.moving_variance, before)


# Layers of one's own ----------------------------------------------------------------------------


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.layers.Layer):
    """Has neither `build` nor `compute_output_shape`, and a layer inside."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.LayerNormalization(dtype=self.dtype_policy)

    def call(self, x):
        return 2.0 * self.inner(x)


@every_kind
def test_a_layer_without_compute_output_shape_computes_what_it_says(kind):
    own = kinds.build(kind, Doubled())
    ours = kinds.build(kind, LayerNormalization())
    kernels, affine = own.get_weights()[:3], own.get_weights()[3:]
    ours.set_weights([*kernels, *(2.0 * weight for weight in affine)])
    kinds.assert_close(own(kinds.inputs()), ours(kinds.inputs()), 1e-12)


def test_a_layer_without_compute_output_shape_trains_in_a_sequential_model():
    model = keras.Sequential([kinds.SIMPLE_RNN.layer(UNITS, norm=Doubled()), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(4, 3, FEATURES))
    history = model.fit(x, np.ones((4, 1)), epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]


# Few input features -----------------------------------------------------------------------------


def warnings_of(function):
    """The messages of `function` that speak of few features, and its result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    messages = [str(warning.message) for warning in caught]
    return [text for text in messages if text.startswith("A norm of W x removes")], result


def model_of(layer, features):
    return keras.Sequential([keras.Input((None, features)), layer])


@every_kind
@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_a_layer_warns_once_when_it_is_built_for_few_features(kind, features):
    layer = kind.preset("LayerNorm")(UNITS)
    messages, _ = warnings_of(lambda: (model_of(layer, features), layer(np.ones((2, 3, features)))))
    assert len(messages) == (features < 4)
    for text in messages:
        assert f"last dimension is {features}, and LayerNormalization in kernel_norm" in text
        named = [slot for slot in kind.slots if f"'{slot}': ..." in text]
        assert named == [slot for slot in kind.slots if not slot.startswith("kernel")]


def test_one_feature_under_a_norm_of_w_x_is_its_sign():
    """Else the warning is wrong."""
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
def test_what_keeps_the_scale_of_a_feature_does_not_warn(kind, norm):
    assert warnings_of(lambda: model_of(kind.layer(UNITS, norm=norm), 1))[0] == []


def test_the_joint_form_does_not_warn():
    layer = kinds.LSTM.layer(UNITS, norm=LayerNormalization(), norm_form="joint")
    assert warnings_of(lambda: model_of(layer, 1))[0] == []


@every_kind
def test_cells_in_keras_rnn_warn_of_few_features(kind):
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
def test_a_model_that_is_loaded_or_copied_warns_no_more(make, tmp_path):
    model = model_of(make(), 1)
    model.save(tmp_path / "model.keras")

    def copies():
        keras.models.load_model(tmp_path / "model.keras")
        rebuild_model(model)

    assert warnings_of(copies)[0] == []


# Refusals ---------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("norm", ["layer", 1, LayerNormalization, [LayerNormalization()]], ids=str)
def test_norm_that_is_no_layer_is_refused(kind, norm):
    assert_refused(lambda: kind.layer(UNITS, norm=norm), "norm must be", repr(norm)[:20])


@every_kind
def test_a_slot_may_be_left_empty_by_name(kind):
    norm = {"kernel_norm": None, "recurrent_norm": LayerNormalization()}
    cell = kind.layer(UNITS, norm=norm).cell
    assert list(cell.slots.templates) == ["recurrent_norm"]


@every_kind
def test_a_norm_dict_changed_later_changes_nothing(kind):
    norm = {"kernel_norm": LayerNormalization()}
    cell = kind.layer(UNITS, norm=norm).cell
    norm["recurrent_norm"] = LayerNormalization()
    assert list(cell.norm) == list(cell.slots.templates) == ["kernel_norm"]


@every_kind
def test_a_layer_that_changes_the_shape_is_refused(kind):
    layer = kind.layer(UNITS, norm=keras.layers.Dense(UNITS + 1))
    assert_refused(lambda: layer.build((None, 5, 2)), "keep the shape", "Dense")


@every_kind
def test_keras_batch_normalization_becomes_ours(kind):
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
def test_unknown_slot_is_refused_and_the_slots_are_named(kind):
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
def test_an_activity_regularizer_of_a_norm_is_refused(kind, norm):
    """The gradient by hand and the loop would leave its loss out."""
    assert_refused(
        lambda: kind.layer(UNITS, norm={"recurrent_norm": norm}),
        f"activity_regularizer in {type(norm).__name__} for recurrent_norm",
        "to the recurrent layer",
    )


@pytest.mark.parametrize("axis", [0, 1, [1, 2]])
def test_norm_over_another_axis_is_refused(axis):
    assert_refused(
        lambda: kinds.LSTM.layer(UNITS, norm=LayerNormalization(axis=axis)), f"axis={axis}"
    )


@pytest.mark.parametrize(
    "options", [{"virtual_batch_size": 2}, {"renorm": True}, {"synchronized": True}], ids=str
)
def test_batch_normalization_that_regroups_the_batch_is_refused(options):
    (name,) = options
    assert_refused(lambda: kinds.LSTM.layer(UNITS, norm=BatchNormalization(**options)), name)


def test_a_batch_normalization_with_a_call_of_its_own_is_refused():
    class Squared(keras_norm.BatchNormalization):
        def call(self, inputs, training=None, mask=None):
            return super().call(inputs, training=training, mask=mask) ** 2

    assert_refused(lambda: kinds.LSTM.layer(4, norm=Squared()), "Squared overrides the call")


@keras.saving.register_keras_serializable("tests.rnn.test_norms")
class Around(keras.layers.Layer):
    """Holds another layer."""

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
    """Keras gives what it has loaded once back a second time."""
    layer = kinds.SIMPLE_RNN.layer(4, norm=Around(LayerNormalization()))
    model = keras.Sequential([keras.Input((5, 3)), layer])
    kinds.randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    assert len(loaded.weights) == len(model.weights) == 7
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_rms_scaling_is_refused_and_the_layer_for_it_named():
    assert_refused(
        lambda: kinds.LSTM.layer(UNITS, norm=LayerNormalization(rms_scaling=True)),
        "rms_scaling",
        "VarianceNormalization(scale=True)",
    )
