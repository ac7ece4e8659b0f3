"""A recurrence with a custom gradient: pure functions, and one module for each Keras backend."""
