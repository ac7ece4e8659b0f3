"""Worker: run a SavedModel in a TensorFlow that has neither Keras nor this package."""

import hashlib
import sys

for name in ("keras", "keras_norm", "tf_keras"):
    sys.modules[name] = None  # type: ignore[assignment]  # any import of it fails

from typing import Any  # noqa: E402

import protocol  # noqa: E402
import tensorflow as tf  # noqa: E402


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]` and return its signature `request["signature"]` as a function."""
    model = tf.saved_model.load(request["path"], tags=["serve"])
    function = model.signatures[request["signature"]]
    dtypes = {name: entry["dtype"] for name, entry in request["inputs"].items()}

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        # `model` owns the variables that `function` reads: keep it alive with the function.
        assert model is not None
        outputs = function(**{n: tf.cast(a, dtypes[n]) for n, a in arrays.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    def state() -> dict[str, str]:
        return {
            f"{i}: {variable.name}": hashlib.sha256(variable.numpy().tobytes()).hexdigest()
            for i, variable in enumerate(function.variables)
        }

    run.state = state  # type: ignore[attr-defined]
    return {}, run


if __name__ == "__main__":
    protocol.serve(load)
