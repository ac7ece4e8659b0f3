"""Constructor arguments: shown by inspect.signature, taken by position, and refused."""

import inspect
import json

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import LayerNormalization, LayerNormLSTM
from tests.check_layer import assert_refused
from tests.rnn.kinds import KINDS

NAMES = [getattr(keras_norm, name) for name in keras_norm.__all__]
# All layers but Bidirectional, which takes the arguments of Keras' class.
PUBLIC = [x for x in NAMES if isinstance(x, type) and issubclass(x, keras.layers.Layer)]
PUBLIC.remove(keras_norm.Bidirectional)
REQUIRED = {"units": 3, "max_timesteps": 2}
INTERNAL = (
    "FeatureNormalization",
    "NormCell",
    "NormRNN",
    "CellLayer",
    "AffineNorm",
    "StatisticsNorm",
    "__init__",
)

every_class = pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
layer_or_cell = pytest.mark.parametrize("suffix", ["", "Cell"])


def parameters(cls):
    return inspect.signature(cls).parameters


def required(cls):
    return {name: REQUIRED[name] for name, p in parameters(cls).items() if p.default is p.empty}


def config(layer):
    return {key: value for key, value in layer.get_config().items() if key != "name"}


# Shown ------------------------------------------------------------------------------------------


@every_class
def test_the_signature_shows_the_arguments_of_the_config_and_their_defaults(cls):
    """The signature of an instance shows the arguments of its call; tf.function reads it."""
    shown = parameters(cls)
    assert not {p.kind for p in shown.values()} & {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }
    layer = cls(**required(cls))
    unsaved = {"autocast", "activity_regularizer", "use_cudnn"}  # not in the configs of Keras
    assert set(layer.get_config()) - unsaved == set(shown) - unsaved
    defaults = {name: p.default for name, p in shown.items() if p.default is not p.empty}
    assert config(cls(**required(cls), **defaults)) == config(layer)
    assert inspect.signature(layer) == inspect.signature(keras.layers.Dense(1))
    assert keras.saving.get_registered_name(cls) == f"keras_norm>{cls.__name__}"
    restored = cls.from_config(json.loads(json.dumps(layer.get_config())))
    assert restored.get_config() == layer.get_config()


# Arguments of the norm, which follow `units`.
OF_THE_NORM = {
    "LayerNorm": [],
    "Norm": ["norm"],
    "BatchNorm": ["max_timesteps", "momentum", "epsilon", "debias"],
}


@every_kind
@layer_or_cell
@pytest.mark.parametrize("prefix", OF_THE_NORM)
def test_positional_arguments_follow_keras_after_the_arguments_of_the_norm(kind, suffix, prefix):
    ours = parameters(getattr(keras_norm, f"{prefix}{kind}{suffix}"))
    theirs = dict(parameters(getattr(keras.layers, f"{kind}{suffix}")))
    del theirs["kwargs"]
    units, *rest = theirs
    expected = [units, *OF_THE_NORM[prefix], *rest]
    positional = [name for name, p in ours.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional[: len(expected)] == expected
    defaults = {name: p.default for name, p in theirs.items()}
    defaults["bias_initializer"] = None  # the norm decides: zeros or random values
    assert {name: ours[name].default for name in theirs} == defaults
    assert {"name", "dtype", "trainable"} <= set(ours)
    assert suffix or list(ours).index("zero_output_for_mask") > list(ours).index("seed")


@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization", "BatchNormalization"])
def test_norms_show_every_argument_of_the_keras_layer(name):
    ours, theirs = (dict(parameters(getattr(m, name))) for m in (keras_norm, keras.layers))
    del theirs["kwargs"]
    assert {n: ours[n].default for n in theirs} == {n: p.default for n, p in theirs.items()}


# Refused ----------------------------------------------------------------------------------------


@every_class
def test_argument_errors_name_the_class_that_was_called(cls):
    given, first = required(cls), next(iter(parameters(cls)))
    takes = f"{cls.__name__} takes"
    many = ["too many positional", takes, first, "Received 60 positional arguments", "none."]
    cases = [
        ((), {**given, "no_such_argument": 1}, [f"'no_such_argument'. {takes}", first]),
        (range(60), {}, many),
        ((3,), {**given, first: 3}, ["multiple values", first, "Received 1 positional"]),
        ((), {**given, "dtipe": 1}, ["mean 'dtype'?"]),
    ]
    if given:
        cases.append(((), {}, ["missing", f"'{first}'", "Received 0 positional"]))
    for args, kwargs, words in cases:
        with pytest.raises(TypeError) as refusal:
            cls(*args, **kwargs)
        message = str(refusal.value)
        assert message.startswith(f"{cls.__name__}: ")
        assert [word for word in words if word not in message] == []
        assert [word for word in INTERNAL if word in message] == []


@every_kind
@layer_or_cell
def test_presets_explain_a_missing_max_timesteps_and_name_the_class_that_takes_norm(kind, suffix):
    cls = kind.preset("BatchNorm", suffix)
    assert_refused(
        lambda: cls(16),
        f"{cls.__name__}: missing a required argument: 'max_timesteps'. "
        "Give max_timesteps, the number of timesteps with their own statistics.",
        "Received 1 positional",
    )
    for preset in (cls, kind.preset("LayerNorm", suffix)):
        assert_refused(
            lambda preset=preset: preset(**required(preset), norm=None),
            f"{preset.__name__}: ",
            f"'norm'. Only Norm{kind}{suffix} takes 'norm'.",
        )


@pytest.mark.parametrize(
    "cls", [cls for cls in PUBLIC if "RNN" not in cls.__name__], ids=lambda cls: cls.__name__
)
def test_errors_about_a_value_name_no_internal_class(cls):
    refused = 0
    for name, parameter in parameters(cls).items():
        is_number = type(parameter.default) in (int, float, type(parameter.empty))
        for wrong in (object(), -1 if is_number else "no"):
            try:
                cls(**{**required(cls), name: wrong})
            except (TypeError, ValueError) as error:
                refused += 1
                message = str(error)
                assert not [word for word in INTERNAL if word in message]
                assert f"{cls.__name__}Cell" not in message
    assert refused > 3


def test_a_layer_norm_gru_that_refuses_reset_after_names_the_class_that_takes_it():
    for cls in (keras_norm.LayerNormGRU, keras_norm.LayerNormGRUCell):
        assert_refused(lambda cls=cls: cls(3, reset_after=False), "use NormGRU with norm=None")


# Undeclared arguments, and subclasses of users --------------------------------------------------


def test_arguments_that_keras_does_not_declare_are_accepted():
    with pytest.warns(UserWarning, match="input_shape"):
        layer = LayerNormLSTM(3, input_shape=(5, 2), implementation=1)
    assert keras.Sequential([layer]).output_shape == (None, 3)


class OwnLSTM(LayerNormLSTM):
    def __init__(self, units, *, extra=1, **kwargs):
        self.more = kwargs.pop("more", 2)
        super().__init__(units, **kwargs)
        self.extra = extra


class OwnNorm(LayerNormalization):
    def __init__(self, extra, **kwargs):
        self.more = kwargs.pop("more", 2)
        super().__init__(**kwargs)


@pytest.mark.parametrize("cls", [OwnLSTM, OwnNorm])
def test_a_subclass_with_its_own_init_shows_and_reads_its_own_arguments(cls):
    layer = cls(3, more=4, name="mine")
    assert (layer.more, layer.name) == (4, "mine")
    assert layer(np.zeros((2, 3, 4))).shape[0] == 2
    assert list(parameters(cls))[-1] == "kwargs"
    assert_refused(lambda: cls(3, no_such_argument=1), cls.__name__, "no_such_argument")
    assert_refused(lambda: cls(), cls.__name__)


def test_a_subclass_without_an_init_shows_the_arguments_of_its_base():
    class Subclass(LayerNormLSTM):
        pass

    assert inspect.signature(Subclass) == inspect.signature(LayerNormLSTM)
    assert_refused(
        lambda: Subclass(3, no_such_argument=1), "Subclass: got an unexpected", "no_such_argument"
    )
