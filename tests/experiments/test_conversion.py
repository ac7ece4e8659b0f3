"""A converted model has the trained weights, and fitted norms have the scale of their inputs."""

import keras
import numpy as np
import pytest

import keras_norm
from experiments import conversion
from experiments.harness.study import Arm
from tests.rnn import kinds

UNITS, STEPS, WORDS = 5, 4, 9
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {
        "UNITS": UNITS,
        "WORDS": WORDS,
        "LONGEST": STEPS,
        "BATCH": 8,
        "TRAINED": 2,
        "CONTINUED": (1,),
        "IN_ALL": 3,
        "CALIBRATED": 2,
    }.items():
        monkeypatch.setattr(conversion, name, value)
    classes = RNG.integers(0, 6, 32)
    words = RNG.integers(1, WORDS, (32, STEPS))
    words[::2, 2:] = 0  # padding
    part = (words.astype("int32"), classes)
    parts = dict.fromkeys(("training", "validation", "test"), part)
    monkeypatch.setattr(conversion, "load", lambda task, folder: parts)
    caches = conversion.learner, conversion.trained_lstm
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def trained():
    """Return a model of random weights, as after a training."""
    model = conversion.network(conversion.QUESTIONS)
    kinds.randomize(model)
    return model


def questions():
    return conversion.load(conversion.QUESTIONS, None)["training"][0]


def test_fitted_scales_are_those_of_the_unmasked_timesteps():
    lstm, x = trained(), questions()
    converted = keras_norm.convert(lstm, "layer", verbose=False)
    conversion.fit_norms(lstm, converted.get_layer("recurrent").cell, x)
    embedding, layer, _ = (lstm.get_layer(n) for n in ("embedding", "recurrent", "class"))
    steps = keras.layers.LSTM(UNITS, return_state=True)
    steps.build((None, None, UNITS))
    steps.set_weights(layer.get_weights())
    kernel, recurrent_kernel, _ = layer.get_weights()
    seen = {"kernel_norm": [], "recurrent_norm": [], "state_norm": []}
    for question in x:
        features = np.array(embedding(question[None]))
        h = np.zeros((1, UNITS))
        for t in range(np.count_nonzero(question)):
            seen["kernel_norm"].append(features[0, t] @ kernel)
            seen["recurrent_norm"].append(h[0] @ recurrent_kernel)
            _, h, c = (np.array(a) for a in steps(features[:, : t + 1]))
            seen["state_norm"].append(c[0])
    for slot, rows in seen.items():
        norm = getattr(converted.get_layer("recurrent").cell, slot)
        expected = np.mean([np.std(row) for row in rows])
        np.testing.assert_allclose(norm.gamma, np.full(norm.gamma.shape, expected), rtol=1e-4)
        np.testing.assert_allclose(norm.beta, np.full(norm.beta.shape, np.mean(rows)), atol=1e-5)


def test_the_lstm_goes_on_as_if_its_training_had_not_paused():
    conversion.measure(Arm(conversion.QUESTIONS, conversion.LSTM), 3)
    continued = conversion.learner(conversion.QUESTIONS, None).model.get_weights()
    keras.utils.set_random_seed(3)
    lstm = conversion.learner(conversion.QUESTIONS, None)
    lstm.restore(conversion.network(conversion.QUESTIONS).get_weights())
    lstm.train(conversion.load(conversion.QUESTIONS, None), 3, range(3))
    for found, expected in zip(continued, lstm.model.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "epochs"),
    [
        (conversion.LN, [range(2, 2), range(2, 3)]),
        (conversion.ANEW, [range(0), range(0, 1), range(1, 3)]),
    ],
)
def test_a_model_that_is_trained_anew_has_as_many_epochs_in_all(model, epochs, monkeypatch):
    trained = []
    monkeypatch.setattr(
        conversion.Learner, "train", lambda self, parts, seed, epochs: trained.append(epochs)
    )
    monkeypatch.setattr(conversion.Learner, "accuracy", lambda *_: 0.5)
    conversion.measure(Arm(conversion.QUESTIONS, model), 0)
    assert trained == [range(2), *epochs]  # the LSTM before it is converted, and the model


def test_accuracy_of_a_batch_norm_has_the_statistics_of_training_samples():
    learner = conversion.learner(conversion.QUESTIONS, "batch")
    parts = conversion.load(conversion.QUESTIONS, None)
    cell = learner.model.get_layer("recurrent").cell
    before = np.array(cell.kernel_norm.moving_variance)
    learner.accuracy(parts, recalibrated=False)
    np.testing.assert_array_equal(cell.kernel_norm.moving_variance, before)
    learner.accuracy(parts, recalibrated=True)
    assert np.abs(np.array(cell.kernel_norm.moving_variance) - before).min() > 0
