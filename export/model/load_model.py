"""Load a .keras file in safe mode, with messages that say what to do about unknown objects."""

import os
import pathlib
import re
import zipfile

import keras

from keras_norm.keras_internals import reason
from keras_norm_verify.files import require_file
from keras_norm_verify.printable import printable

# Keras' error messages for an unknown layer, function, constraint or similar object.
UNREGISTERED = re.compile(
    r"(?:Could not locate class |Could not locate function |Cannot deserialize object of type "
    r"|Could not interpret [\w ]+ identifier: .*?'class_name': (?:'function', 'config': )?)"
    r"['`]([^'`]+)['`]"
)
# Keras' error messages for a lambda in a Lambda layer, and for a lambda as an activation.
LAMBDA = re.compile(r"a Python lambda|function identifier: \{'value'")


def load_model(path: str | os.PathLike[str], compile: bool = False) -> keras.Model:
    """Load a .keras file in safe mode, so that no code of the file runs.

    Args:
        path: the file.
        compile: whether to compile the model with the optimizer and the loss of the file.

    Raises:
        OSError: the file does not exist, is a folder, or cannot be read.
        ValueError: the file cannot be loaded; the message names the cause.
    """
    require_file(pathlib.Path(path))
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} cannot be loaded: it is not a .keras file, or is incomplete.")
    try:
        return keras.saving.load_model(path, compile=compile, safe_mode=True)
    # Keras' parsers may raise any error; every error means that the file cannot be loaded.
    except Exception as error:
        text = " ".join(reason(error).split()) or type(error).__name__
        if unknown := UNREGISTERED.search(text):
            name = printable(unknown[1])
            text = (
                f"{name} is not registered. Import the module that registers it; on the command "
                f"line: keras-norm --import MODULE COMMAND. If {name} was not registered when the "
                "model was saved, the module must set "
                f"keras.saving.get_custom_objects()['{name}']."
            )
        elif LAMBDA.search(text):
            text = (
                "the model contains a lambda, and safe mode does not run code of a file. Build the "
                "model with a registered layer or function "
                "(keras.saving.register_keras_serializable), and import its module; on the command "
                "line: keras-norm --import MODULE COMMAND. Or export the model in Python, where it "
                "was built: keras_norm.export.export_saved_model(model, path)."
            )
        raise ValueError(f"{path} cannot be loaded: {text}") from error
