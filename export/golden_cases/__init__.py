"""Golden cases: inputs, expected outputs and tolerances that are stored with an artifact.

The package needs NumPy and the runtime of the artifact. `make stubs` writes the code of the
package into one file, `keras_norm_verify.py`.
"""
