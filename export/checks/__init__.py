"""Check that exported files compute the outputs of the Keras model, and give advice."""
