"""Worker script: run a SavedModel through TensorFlow's C API, as TensorFlow Serving does.

Python's TensorFlow is never imported: only the shared libraries in its wheel are opened.
"""

import ctypes
import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes  # noqa: F401  # this import adds the dtype bfloat16 to NumPy
import numpy as np
import worker_protocol as protocol

# (name of a graph's tensor, name of its dtype, number of its dtype in the C enum TF_DataType).
# The name of a dtype is, for example, "float32", "bfloat16" or "string".
Tensor: TypeAlias = tuple[str, str, int]
CType: TypeAlias = type[Any]

TEXT_BYTES = 24  # size of the C struct TF_TString, an element of a tensor of texts


class Output(ctypes.Structure):
    """The C struct TF_Output: an operation of the graph, and the index of one of its outputs."""

    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


def open_library() -> ctypes.CDLL:
    """Open the C library of the installed TensorFlow and declare the functions used here."""
    spec = importlib.util.find_spec("tensorflow")  # `find_spec` does not import TensorFlow
    if spec is None or spec.origin is None:
        raise ImportError("tensorflow is not installed")
    folder = pathlib.Path(spec.origin).parent
    # Open libtensorflow_framework first and share its symbols: libtensorflow_cc needs them.
    _open(folder, "libtensorflow_framework*", ctypes.RTLD_GLOBAL)
    lib = _open(folder, "libtensorflow_cc*", ctypes.RTLD_LOCAL)

    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    # Types of three arguments: an array of TF_Output, an array of tensors, and the length of both
    # arrays. TF_SessionRun takes three such arguments for the inputs, and three for the outputs.
    feeds: list[CType] = [ctypes.POINTER(Output), ctypes.POINTER(ctypes.c_void_p), integer]
    dims = ctypes.POINTER(ctypes.c_int64)
    tags = ctypes.POINTER(ctypes.c_char_p)
    declarations: dict[str, tuple[CType | None, list[CType]]] = {
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (integer, [pointer]),
        "TF_Message": (ctypes.c_char_p, [pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_NewSessionOptions": (pointer, []),
        "TF_LoadSessionFromSavedModel": (
            pointer,
            [pointer, pointer, ctypes.c_char_p, tags, integer, pointer, pointer, pointer],
        ),
        "TF_GraphOperationByName": (pointer, [pointer, ctypes.c_char_p]),
        "TF_SessionRun": (
            None,
            [pointer, pointer, *feeds, *feeds, pointer, integer, pointer, pointer],
        ),
        "TF_AllocateTensor": (pointer, [integer, dims, integer, size]),
        "TF_DeleteTensor": (None, [pointer]),
        "TF_TensorType": (integer, [pointer]),
        "TF_NumDims": (integer, [pointer]),
        "TF_Dim": (ctypes.c_int64, [pointer, integer]),
        "TF_TensorByteSize": (size, [pointer]),
        "TF_TensorData": (pointer, [pointer]),
        "TF_StringInit": (None, [pointer]),
        "TF_StringCopy": (None, [pointer, ctypes.c_char_p, size]),
        "TF_StringDealloc": (None, [pointer]),
        "TF_StringGetDataPointer": (pointer, [pointer]),
        "TF_StringGetSize": (size, [pointer]),
    }
    for name, (result, arguments) in declarations.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def _open(folder: pathlib.Path, pattern: str, mode: int) -> ctypes.CDLL:
    found = sorted(folder.glob(pattern))
    if not found:
        raise OSError(f"the installed TensorFlow has no library {pattern} in {folder}")
    return ctypes.CDLL(str(found[0]), mode=mode)


class Session:
    """A loaded SavedModel, which any number of threads may run at once.

    Args:
        lib: TensorFlow's C library, from `open_library`.
        path: the SavedModel's folder.
        inputs: the inputs by name.
        outputs: the outputs by name.
    """

    def __init__(
        self, lib: ctypes.CDLL, path: str, inputs: dict[str, Tensor], outputs: dict[str, Tensor]
    ) -> None:
        self._lib = lib
        self._graph = lib.TF_NewGraph()
        self._session = self._checked(
            lib.TF_LoadSessionFromSavedModel,
            lib.TF_NewSessionOptions(),
            None,
            path.encode(),
            (ctypes.c_char_p * 1)(b"serve"),
            1,
            self._graph,
            None,
        )
        self._numbers = {name: number for name, (_, _, number) in inputs.items()}
        tensors = (*inputs.values(), *outputs.values())
        self._dtypes = {number: dtype for _, dtype, number in tensors}
        self._inputs = {name: self._output(tensor) for name, (tensor, *_) in inputs.items()}
        self._outputs = {name: self._output(tensor) for name, (tensor, *_) in outputs.items()}

    def run(self, arrays: protocol.Arrays) -> protocol.Arrays:
        """Run the model once with the given inputs by name, and return all outputs by name."""
        results = (ctypes.c_void_p * len(self._outputs))()
        feeds = (ctypes.c_void_p * len(arrays))()
        try:
            for i, (name, array) in enumerate(arrays.items()):
                feeds[i] = self._tensor(array, self._numbers[name])
            self._checked(
                self._lib.TF_SessionRun,
                self._session,
                None,
                (Output * len(arrays))(*(self._inputs[name] for name in arrays)),
                feeds,
                len(arrays),
                (Output * len(results))(*self._outputs.values()),
                results,
                len(results),
                None,
                0,
                None,
            )
            return {name: self._array(results[i]) for i, name in enumerate(self._outputs)}
        finally:
            for tensor in filter(None, feeds):
                # Free the memory of the texts in an input. TensorFlow frees the texts in an output.
                for text in self._texts(tensor):
                    self._lib.TF_StringDealloc(text)
            for tensor in filter(None, (*feeds, *results)):
                self._lib.TF_DeleteTensor(tensor)

    def _checked(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function of TensorFlow's C API; raise RuntimeError if its status is an error."""
        # Each call has its own status object, because several threads call the library at once.
        status = self._lib.TF_NewStatus()
        try:
            result = function(*arguments, status)
            if self._lib.TF_GetCode(status):
                raise RuntimeError(self._lib.TF_Message(status).decode())
            return result
        finally:
            self._lib.TF_DeleteStatus(status)

    def _output(self, tensor: str) -> Output:
        operation, _, index = tensor.partition(":")
        found = self._lib.TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            raise ValueError(
                f"the SavedModel is damaged: its signature names the operation {operation}, and "
                "its graph lacks this operation"
            )
        return Output(found, int(index or 0))

    def _tensor(self, array: protocol.Array, number: int) -> int:
        lib, dtype = self._lib, self._dtypes[number]
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        if dtype == "string":
            size = array.size * TEXT_BYTES
            texts: int = lib.TF_AllocateTensor(number, dims, array.ndim, size)
            for address, text in zip(self._texts(texts), array.ravel().tolist(), strict=True):
                lib.TF_StringInit(address)
                lib.TF_StringCopy(address, text, len(text))
            return texts
        array = np.ascontiguousarray(array, dtype).reshape(array.shape)
        tensor: int = lib.TF_AllocateTensor(number, dims, array.ndim, array.nbytes)
        ctypes.memmove(lib.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _texts(self, tensor: int | None) -> range:
        """Return the memory addresses of a tensor's texts; an empty range for numeric tensors."""
        lib = self._lib
        if self._dtypes[lib.TF_TensorType(tensor)] != "string":
            return range(0)
        start = lib.TF_TensorData(tensor) or 0
        return range(start, start + lib.TF_TensorByteSize(tensor), TEXT_BYTES)

    def _array(self, tensor: int | None) -> protocol.Array:
        lib = self._lib
        shape = tuple(lib.TF_Dim(tensor, i) for i in range(lib.TF_NumDims(tensor)))
        dtype = self._dtypes[lib.TF_TensorType(tensor)]
        if dtype == "string":
            texts = np.empty(shape, object)
            texts.ravel()[:] = [self._text(address) for address in self._texts(tensor)]
            return texts
        data = ctypes.string_at(lib.TF_TensorData(tensor) or 0, lib.TF_TensorByteSize(tensor))
        return np.frombuffer(data, dtype).reshape(shape)

    def _text(self, address: int) -> bytes:
        """Return the text that is stored at a memory address from `_texts`."""
        size = self._lib.TF_StringGetSize(address)
        return ctypes.string_at(self._lib.TF_StringGetDataPointer(address), size)


def load(options: protocol.Options) -> protocol.Loaded:
    """Load the SavedModel `options["path"]` through TensorFlow's C API.

    The options `inputs` and `outputs` are dicts: name -> `Tensor`.
    """
    session = Session(open_library(), options["path"], options["inputs"], options["outputs"])
    return protocol.Loaded({}, session.run)


if __name__ == "__main__":
    protocol.serve(load)
