"""Compare arrays: differences, tolerances, metrics and test inputs, in NumPy."""
