"""Compare the outputs of two models in NumPy: test inputs, differences, tolerances, metrics."""
