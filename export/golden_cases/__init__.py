"""Golden cases: inputs, expected outputs and tolerances that are stored with an artifact.

The package needs NumPy and the runtime of the artifact. `keras_norm_verify.py` has its code in one
file, which `make stubs` writes.
"""
