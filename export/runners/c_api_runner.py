"""SavedModels through TensorFlow's C API."""

from keras_norm.export.runners.saved_model_runner import SavedModelRunner


class CApiRunner(SavedModelRunner):
    """A SavedModel through TensorFlow's C API, the loader that TensorFlow Serving uses.

    The worker never imports Python's TensorFlow.
    """

    name = "SavedModel (C API)"
    _script = "run_c_api.py"
