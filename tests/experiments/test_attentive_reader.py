"""The attentive reader agrees with the paper's equations."""

import keras
import numpy as np
import pytest

from experiments import attentive_reader
from experiments.attentive_reader import EVERYWHERE, SHAKESPEARE
from experiments.harness.study import Arm

RNG = np.random.default_rng(0)
PARTS = {"training": (None, np.array([2]))}


@pytest.fixture
def built():
    """Return a function that builds a model with random weights."""

    def build(name):
        model = attentive_reader.build(Arm(SHAKESPEARE, name), PARTS)
        for variable in model.trainable_variables:
            variable.assign(RNG.normal(0.0, 0.3, variable.shape))
        return model

    return build


def padded(*rows, longest):
    return keras.utils.pad_sequences(rows, longest, "int32", "post", "post")


def test_the_outputs_agree_with_the_equations_in_numpy(built):
    """The LSTMs are Keras layers with equal weights."""
    model = built("LSTM")
    passage, question = RNG.integers(2, 50, 7), RNG.integers(2, 50, 3)
    lengths = attentive_reader.LONGEST
    x = {
        "passage": padded(passage, longest=lengths["passage"]),
        "question": padded(question, longest=lengths["question"]),
    }
    layers = {layer.name: layer.get_weights() for layer in model.layers}
    (words,) = next(layers[name] for name in layers if name.startswith("embedding"))

    def lstm(name, ids):
        layer = keras.layers.LSTM(attentive_reader.UNITS, return_sequences=True, dtype="float64")
        layer.build((None, None, words.shape[1]))
        layer.set_weights(layers[name])
        return np.array(layer(words[ids][None]))[0]

    y, u = lstm("y", passage), lstm("u", question)[-1]
    ym, um, wms, rg, ug, answer = (
        layers[name] for name in ("W_ym", "W_um", "w_ms", "W_rg", "W_ug", "name")
    )
    m = np.tanh(y @ ym[0] + ym[1] + u @ um[0] + um[1])
    s = np.exp(m @ wms[0])
    r = (s / s.sum() * y).sum(axis=0)
    g = np.tanh(r @ rg[0] + rg[1] + u @ ug[0] + ug[1])
    expected = np.exp(g @ answer[0] + answer[1])
    np.testing.assert_allclose(model(x)[0], expected / expected.sum(), rtol=1e-4)


@pytest.mark.parametrize("name", ["LN-LSTM", EVERYWHERE])
def test_padding_does_not_change_the_outputs(built, name):
    """The second passage of the batch is shorter than the first."""
    model = built(name)
    rows = [RNG.integers(2, 50, n) for n in (9, 4)]
    x = {part: padded(*rows, longest=n) for part, n in attentive_reader.LONGEST.items()}
    alone = {part: ids[1:] for part, ids in x.items()}
    np.testing.assert_allclose(model(x)[1], model(alone)[0], rtol=1e-4)
