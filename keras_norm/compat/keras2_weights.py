"""Read the weights of a model of Keras 2 from its files, in the order of get_weights()."""

import os
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np

from keras_norm.compat.weight_files import read_weights
from keras_norm.typing import Array, TensorLike

SAVE = "numpy.savez('weights.npz', *model.get_weights())"
HDF5 = (".h5", ".hdf5")
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
VALUE = "VARIABLE_VALUE"
# Names of objects in a model's checkpoint. These objects contain no weights of the model.
IGNORED = ("keras_api", "optimizer", "save_counter")


class NamedWeight(NamedTuple):
    """A weight and its name, such as "rnn/layer_norm_lstm_cell/kernel", or "" without a name."""

    name: str
    value: TensorLike


def read_keras2_weights(path: str | os.PathLike[str]) -> list[NamedWeight]:
    """Read all weights of a model of Keras 2, in the order of get_weights().

    The classes of the model need not exist, and no code of the file is executed.

    Args:
        path: a SavedModel directory, a TensorFlow checkpoint (its prefix, or its directory), an
            HDF5 file of `model.save` or `model.save_weights`, or a .npz file of
            `numpy.savez(path, *model.get_weights())`.

    Raises:
        ValueError: a file of another format, or a damaged file.
        OSError: the file cannot be read.
    """
    path = pathlib.Path(path)
    checkpoint = _find_checkpoint(path)
    if checkpoint:
        return _read_checkpoint(checkpoint)
    ending = path.suffix.lower()
    if ending in HDF5:
        return _read_hdf5(path)
    if ending == ".npz":
        return _read_npz(path)
    raise ValueError(
        "The weights of a Keras 2 model are read from a SavedModel, a TensorFlow checkpoint, an "
        f".h5 file or a .npz file. Received: '{path}'. Load the model in its old environment, and "
        f"call {SAVE}."
    )


def _find_checkpoint(path: pathlib.Path) -> str | None:
    """Return a checkpoint's path without file endings, or None if `path` is not a checkpoint."""
    import tensorflow as tf

    if path.is_dir():
        latest: str | None = tf.train.latest_checkpoint(str(path))
        path = path / "variables" / "variables"
        if not path.with_name("variables.index").is_file():
            return latest
    prefix = str(path).removesuffix(".index")
    return prefix if pathlib.Path(f"{prefix}.index").is_file() else None


def _read_checkpoint(prefix: str) -> list[NamedWeight]:
    """Read a checkpoint of a Keras model, or the variables of a SavedModel."""
    import tensorflow as tf
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    try:
        reader = tf.train.load_checkpoint(prefix)
        if reader.has_tensor(OBJECT_GRAPH):
            graph = TrackableObjectGraph.FromString(reader.get_tensor(OBJECT_GRAPH))
            return [
                NamedWeight(variable.full_name, reader.get_tensor(variable.checkpoint_key))
                for variable in _list_variables(graph.nodes)
            ]
    except tf.errors.OpError as error:
        raise ValueError(f"The checkpoint '{prefix}' is damaged: {error.message}.") from error
    raise ValueError(
        f"The checkpoint '{prefix}' was not written by a Keras model. Load the model in its old "
        f"environment, and call {SAVE}."
    )


def _list_variables(nodes: Any) -> list[Any]:
    """List a model's variables from the objects of its checkpoint, `nodes`.

    A SavedModel has the list `variables`. In another checkpoint, a layer has its own variables
    first, and then its sublayers, in the order of their creation.
    """
    seen: set[int] = set()

    def walk(number: int) -> Iterator[Any]:
        children = {child.local_name: child.node_id for child in nodes[number].children}
        if "variables" in children and number == 0:
            children = {"variables": children["variables"]}
        layers = [name for name in children if name.startswith("layer_with_weights-")]
        names = sorted(layers, key=lambda name: int(name.split("-")[1])) or list(children)
        if all(name.isdigit() for name in names):
            names.sort(key=int)
        new = [children[name] for name in names if name not in IGNORED]
        new = [child for child in dict.fromkeys(new) if child not in seen]
        seen.update(new)
        for child in new:
            yield from (a for a in nodes[child].attributes if a.name == VALUE)
        for child in new:
            yield from walk(child)

    return list(walk(0))


def _read_hdf5(path: pathlib.Path) -> list[NamedWeight]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file '{path}'.")
    try:
        with h5py.File(path) as file:
            weights = file.get("model_weights", file)
            if "layer_names" in weights.attrs or "layer_names0" in weights.attrs:
                return [
                    NamedWeight(name.partition(":")[0], _read_dataset(weights[layer][name], path))
                    for layer in _read_names(weights, "layer_names")
                    for name in _read_names(weights[layer], "weight_names")
                ]
    except OSError as error:
        raise ValueError(f"'{path}' is not an HDF5 file, or is damaged: {error}.") from error
    raise ValueError(
        f"'{path}' has no list of the layers, so the order of its weights is unknown. Load the "
        f"model in its old environment, and call {SAVE}."
    )


def _read_dataset(dataset: Any, path: pathlib.Path) -> Array:
    """Read an array; refuse a link to another file, which could be any file of the computer."""
    if dataset.file.filename != str(path) or dataset.external or dataset.is_virtual:
        raise ValueError(
            f"The weight {dataset.name!r} of '{path}' is stored in another file. Write all weights "
            "to one file: model.save_weights(path)."
        )
    return np.asarray(dataset)


def _read_names(group: Any, attribute: str) -> list[str]:
    """Read a list of names, which Keras splits into several attributes if it is long."""
    parts = [group.attrs[attribute]] if attribute in group.attrs else []
    while f"{attribute}{len(parts)}" in group.attrs:
        parts.append(group.attrs[f"{attribute}{len(parts)}"])
    names = [name for part in parts for name in part]
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def _read_npz(path: pathlib.Path) -> list[NamedWeight]:
    arrays: dict[str, Array] = read_weights(path)
    names = [f"arr_{k}" for k in range(len(arrays))]
    if set(names) != set(arrays):
        raise ValueError(
            f"'{path}' has named arrays, so the order of get_weights() is unknown. Load the model "
            f"in its old environment, and call {SAVE}."
        )
    return [NamedWeight("", arrays[name]) for name in names]
