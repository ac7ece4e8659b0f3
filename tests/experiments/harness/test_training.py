"""What a training starts from, and ends with: the best epoch's weights, with their statistics."""

import keras
import numpy as np
import pytest

from experiments.harness.results import Run
from experiments.harness.training import CALIBRATION, compiled, fit, load_best, started

RUN = Run("line", "BatchNorm", 0)
RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, (70, 4)).astype("float32")
Y = X @ RNG.normal(size=(4, 1)).astype("float32")

CLASSES = RNG.integers(0, 3, 70)


def trained(tmp_path, epochs=1, x=X, y=Y, size=32, callbacks=()):
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    curves = fit(
        model,
        x,
        y,
        run=RUN,
        out=tmp_path,
        monitor="val_loss",
        callbacks=callbacks,
        validation_data=(X, Y),
        batch_size=size,
        epochs=epochs,
    )
    return model, curves


def test_statistics_are_those_of_the_training_batches(tmp_path):
    model, _ = trained(tmp_path)
    norm, whole = model.layers[0], X[:64]  # whole batches
    np.testing.assert_allclose(norm.moving_mean, whole.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.moving_variance, whole.var(0), rtol=1e-5)


def test_the_first_batches_are_enough(tmp_path):
    x = RNG.normal(3.0, 2.0, (CALIBRATION + 50, 4)).astype("float32")
    model, _ = trained(tmp_path, x=x, y=x[:, :1], size=1)
    np.testing.assert_allclose(model.layers[0].moving_mean, x[:CALIBRATION].mean(0), rtol=1e-5)


def test_epochs_are_validated_with_these_statistics(tmp_path):
    model, curves = trained(tmp_path)
    assert curves["val_loss"] == [pytest.approx(model.evaluate(X, Y, verbose=0), abs=1e-4)]


def test_the_best_epoch_is_kept(tmp_path):
    class Broken(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                self.model.layers[1].kernel.assign(np.full((4, 1), 10.0))

    model, curves = trained(tmp_path, epochs=2, callbacks=(Broken(),))
    assert curves["val_loss"][1] > curves["val_loss"][0]
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(curves["val_loss"][0], abs=1e-4)


def test_weights_that_are_gone_say_how_to_have_them_again(tmp_path):
    model, _ = trained(tmp_path)
    with pytest.raises(SystemExit, match=r"remove the run from results.json to train it again"):
        load_best(model, tmp_path / "elsewhere", RUN)


def classifier(units):
    layers = [keras.Input((4,)), keras.layers.Dense(units), keras.layers.Dropout(0.5)]
    model = keras.Sequential([*layers, keras.layers.Dense(3, "softmax")])
    return compiled(model, keras.optimizers.Adam())


def test_one_model_learns_the_same_from_the_same_seed():
    models, losses = [], []
    for seed in (0, 1, 0):
        models.append(started(classifier, 3, seed=seed))
        losses.append([models[-1].train_on_batch(X, CLASSES)[0] for _ in range(3)])
    assert models[2] is models[1] is models[0]
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-6)
    assert np.abs(np.subtract(losses[1], losses[0])).min() > 1e-6


def test_other_arguments_make_another_model():
    models = [started(classifier, units, seed=0) for units in (3, 5)]
    assert [model.layers[0].units for model in models] == [3, 5]
