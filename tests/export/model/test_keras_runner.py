import keras
import numpy as np

from keras_norm.export.model.keras_runner import KerasRunner, NamedModel
from tests.export import models

X = np.random.default_rng(0).normal(size=(3, 5, 3)).astype("float32")


def test_on_other_backends_predict_gives_the_outputs_by_their_names_in_files():
    """Run `NamedModel` on TensorFlow; tests/export/test_jax.py runs it on JAX."""
    model, data = models.tagger(), models.tagger_data(2, 5)
    outputs = NamedModel(model).predict_on_batch(data)
    assert model.predict_function is None
    expected = KerasRunner(model)(data)
    assert list(expected) == ["echo", "mean", "tags_all"]
    models.assert_same(outputs, expected)


def test_digests_change_with_a_weight():
    model = models.dense()
    run = KerasRunner(model)
    before = run.variable_digests()
    model.set_weights([weight + 1 for weight in model.get_weights()])
    changed = [name for name, digest in run.variable_digests().items() if digest != before[name]]
    assert len(changed) == 2


def test_outputs_of_all_layers_are_in_order():
    run = KerasRunner(models.recurrent())
    found, expected = run.layer_outputs({"x": X}), run({"x": X})
    assert list(found) == ["hidden", "y"]
    for name, (output,) in found.items():
        np.testing.assert_allclose(output, expected[name], rtol=0, atol=1e-6)


def test_a_second_call_of_a_layer_has_a_number():
    inputs = keras.Input((3,), name="x")
    layer = keras.layers.Dense(3, name="d")
    run = KerasRunner(keras.Model(inputs, layer(layer(inputs))))
    found = run.layer_outputs({"x": np.ones((1, 3))})
    assert list(found) == ["d", "d (2)"]
