"""Check artifacts against a Keras model: what is run, what it must show, and what to do."""
