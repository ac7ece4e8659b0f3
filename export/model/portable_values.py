"""Convert values, so that a process with another Keras backend can read them."""

import json
import pathlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from keras_norm.clone import custom_classes
from keras_norm.export.errors import one_line
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.tensorflow_process import (
    PROCESS,
    Dataset,
    RemoteFunction,
    load_trained,
)
from keras_norm.export.runtimes.runner import name_and_inputs
from keras_norm.named_layers import named_layers
from keras_norm.typing import Nest


class PortableValues:
    """Convert values, so that a TensorFlow process can read them from a pickle.

    - The process loads each model from a file.
    - Tensors of this process' backend become NumPy arrays.
    - Functions and datasets stay in this process, and the other process calls them.

    Args:
        folder: existing folder for the files of models.

    Attributes:
        functions: the functions that stay in this process, by the number of `RemoteFunction`.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.functions: list[Callable[..., object]] = []

    def convert(self, value: Any) -> Any:
        """Convert models, tensors, datasets and functions to values that another process can read.

        Items of lists, tuples and dicts are converted too.

        Raises:
            ValueError: a model cannot be saved, or uses a class that cannot be imported.
        """
        if isinstance(value, Mapping):
            return {key: self.convert(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.convert, value))
        if isinstance(value, keras.Model):
            return self._save(value)
        if keras.ops.is_tensor(value):
            return keras.ops.convert_to_numpy(value)
        if isinstance(value, keras.utils.PyDataset) or hasattr(value, "as_numpy_iterator"):
            return self._dataset(value)
        if callable(value) and not isinstance(value, type):
            return self._function(value)
        return value

    def _function(self, function: Callable[..., object]) -> RemoteFunction:
        self.functions.append(function)
        return RemoteFunction(len(self.functions) - 1, *name_and_inputs(function))

    def _dataset(self, dataset: Any) -> Dataset:
        is_keras = isinstance(dataset, keras.utils.PyDataset)
        size = dataset.num_batches if is_keras else int(dataset.cardinality())

        def read() -> Callable[[], Nest]:
            batches: Iterator[Nest] = (
                (dataset[k] for k in range(size)) if is_keras else iter(dataset.as_numpy_iterator())
            )
            return lambda: next(batches, None)

        return Dataset(-1 if size is None else size, self._function(read))

    def _save(self, model: keras.Model) -> "_LaterCall":
        """Save a model to a file; return an object that another process unpickles as the model."""
        path = self._folder / f"model_{len(self.functions)}.keras"
        try:
            model.save(path)
        # A layer may raise any error when it is saved.
        except Exception as error:
            raise ValueError(
                f'the model "{model.name}" cannot be saved, so it cannot be loaded on TensorFlow: '
                f"{one_line(error)}"
            ) from error
        runner = KerasRunner(model)
        call = self._function(lambda method, *args: getattr(runner, method)(*args))
        places = _custom_objects(model, path)
        backend = keras.backend.backend()
        return _LaterCall(load_trained, str(path), model.name, places, backend, call)


class _LaterCall:
    """An object that pickle stores as a function call: unpickling returns the function's result."""

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def _custom_objects(model: keras.Model, path: pathlib.Path) -> dict[str, str]:
    """Return custom objects' import paths by registered name, such as "my_layers:Doubled".

    Raises ValueError if a class or function is in no module that another process can import.
    """
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    config.pop("compile_config", None)  # the child process needs no loss and no metric
    texts = set(keras.tree.flatten(config))
    registered = keras.saving.get_custom_objects()
    found = {
        **custom_classes([model, *(layer for _, layer in named_layers(model))]),
        **{name: each for name, each in registered.items() if name in texts},
    }
    places = {}
    for key, each in found.items():
        module, name = getattr(each, "__module__", ""), getattr(each, "__qualname__", key)
        if module in ("", "__main__") or "<" in name:
            place = "__main__" if module == "__main__" else f"{module}, inside a function"
            raise ValueError(
                f'"{name.rpartition(".")[2]}" is defined in {place}, and {PROCESS} cannot import '
                "it from there. Define it at the top level of a module, such as my_layers.py, and "
                "import it from this module"
            )
        places[key] = f"{module}:{name}"
    return places
