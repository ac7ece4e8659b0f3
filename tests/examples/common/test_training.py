"""What a training ends with: the best epoch's weights, and statistics that fit them."""

import keras
import numpy as np
import pytest

from examples.common.results import Run
from examples.common.training import CALIBRATION, fit, load_best

RUN = Run("line", "BatchNorm", 0)
RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, (70, 4)).astype("float32")
Y = X @ RNG.normal(size=(4, 1)).astype("float32")


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


def test_statistics_are_the_mean_over_training_batches(tmp_path):
    model, _ = trained(tmp_path)
    batches = [X[:32], X[32:64]]  # whole ones
    norm = model.layers[0]
    np.testing.assert_allclose(
        norm.moving_mean, np.mean([b.mean(0) for b in batches], 0), rtol=1e-5
    )
    np.testing.assert_allclose(
        norm.moving_variance, np.mean([b.var(0) for b in batches], 0), rtol=1e-5
    )


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
