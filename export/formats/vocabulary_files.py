"""Write the vocabularies of a model's layers as text files."""

import os
import pathlib

import keras

from keras_norm.export.formats.staging import missing_folders, replace_text
from keras_norm.named_layers import named_layers


def write_vocabularies(
    model: keras.Model, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> dict[str, pathlib.Path]:
    r"""Write the vocabulary of every `TextVectorization` and `StringLookup` layer as a text file.

    A file has the name of its layer and the suffix .txt. It has one token on each line, in UTF-8.
    The number of a line, counted from 0, is the id of its token. The tokens for padding (an empty
    line) and for unknown words are included.

    Args:
        model: a model or a layer, such as the preprocessing of `split_text_model`.
        folder: folder of the files. Missing folders are created.
        overwrite: whether to replace existing files.

    Returns:
        The path of each file, by the name of the layer.

    Raises:
        FileExistsError: a file exists, and `overwrite` is False.
        OSError: a file cannot be written.
        ValueError: an argument has the wrong type, the model has no such layer, two layers have one
            name, or a token contains a line break.

    Example:
        >>> preprocessing, _ = split_text_model(text_model)
        >>> paths = write_vocabularies(preprocessing, "vocabularies")
        >>> paths["words"].read_text("utf-8").splitlines()[2:5]
        ['not', 'a', 'bad']
    """
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(f"model must be a Keras model or layer; received {model!r}")
    if not isinstance(overwrite, bool):
        raise ValueError(f"overwrite must be True or False; received {overwrite!r}")
    vocabularies: dict[str, list[str]] = {}
    vectorizers: tuple[str, ...] = ()
    for path, layer in [("", model), *named_layers(model)]:
        if path.startswith(vectorizers) or not isinstance(
            layer, keras.layers.TextVectorization | keras.layers.StringLookup
        ):
            continue
        if isinstance(layer, keras.layers.TextVectorization):
            # Skip the StringLookup inside this layer, because it has the same vocabulary.
            vectorizers += (f"{path}/",)
        if layer.name in vocabularies:
            raise ValueError(
                f'two layers have the name "{layer.name}". Build the model with different names'
            )
        tokens = vocabularies[layer.name] = [str(token) for token in layer.get_vocabulary()]
        if broken := [token for token in tokens if {"\n", "\r"} & {*token}]:
            raise ValueError(
                f'layer "{layer.name}" has the token {broken[0]!r} with a line break, and the file '
                "has one token on each line. Remove the token, or write layer.get_vocabulary() "
                "as JSON"
            )
    if not vocabularies:
        raise ValueError(
            f'"{model.name}" has no TextVectorization or StringLookup layer, so it has no '
            "vocabulary"
        )
    target = pathlib.Path(folder)
    files = {name: target / f"{name}.txt" for name in vocabularies}
    if not overwrite and (existing := [file for file in files.values() if file.exists()]):
        raise FileExistsError(f"{existing[0]} exists; choose another folder, or overwrite=True")
    missing_folders(target)  # check that neither `target` nor a parent is a file
    target.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        replace_text(file, "\n".join(vocabularies[name]))
    return files
