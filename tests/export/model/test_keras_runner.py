from keras_norm.export.model.keras_runner import KerasRunner, NamedModel
from tests.export import models


def test_on_other_backends_predict_gives_the_outputs_by_their_names_in_files():
    """Run `NamedModel` on TensorFlow; tests/export/test_jax.py runs it on JAX."""
    model, data = models.tagger(), models.tagger_data(2, 5)
    outputs = NamedModel(model).predict_on_batch(data)
    assert model.predict_function is None
    expected = KerasRunner(model)(data)
    assert list(expected) == ["echo", "mean", "tags_all"]
    models.assert_same(outputs, expected)
