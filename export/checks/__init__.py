"""Check artifacts against a Keras model: run test inputs, judge the outputs, give advice."""
