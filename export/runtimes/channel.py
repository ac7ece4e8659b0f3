"""Let a process and its child process call functions of each other.

Both processes have a `Channel`. It sends messages of four kinds:

    call, name, arguments      the other process calls the function, and replies result or error
    notice, name, arguments    a call without a reply
    result, value
    error, description

Worker scripts import this module, so it depends on NumPy only.
"""

import io
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Json: TypeAlias = Any

# In the JSON of a message, {"array number": 3} refers to array number 3 of the message.
ARRAY = "array number"


def pack(message: Json) -> bytes:
    """Encode a value as the bytes of an .npz file, which `unpack` decodes.

    The value may be an array, or a list or dict with arrays. A bfloat16 array is stored as
    float32 (exact), because .npz does not support bfloat16. An array of bytes objects, which is
    text, is stored as bytes of fixed width.
    """
    arrays: list[npt.NDArray[Any]] = []

    def store(value: Any) -> Json:
        # Convert bfloat16 to float32 as `to_numpy` of `keras_norm.export.compare.arrays` does. A
        # worker cannot import keras_norm.
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
        arrays.append(array.astype(np.bytes_) if array.dtype.kind == "O" else array)
        return {ARRAY: len(arrays) - 1}

    text = json.dumps(message, default=store)
    buffer = io.BytesIO()
    np.savez(buffer, np.frombuffer(text.encode(), np.uint8), *arrays)
    return buffer.getvalue()


def unpack(payload: bytes) -> Json:
    """Decode a value that `pack` encoded, without pickle. It returns tuples as lists."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        text, *arrays = (archive[f"arr_{i}"] for i in range(len(archive.files)))

    def restore(value: dict[str, Json]) -> Json:
        number = value.get(ARRAY)
        return arrays[number] if type(number) is int else value

    return json.loads(text.tobytes(), object_hook=restore)


class Channel:
    """One end of the connection between a process and its child process.

    By default the messages are JSON and arrays, never a pickle: a worker may run the file of a
    stranger.

    Args:
        connection: the connection.
        functions: an object whose methods the other process calls; None if it calls none.
        dumps: function that encodes a message as bytes.
        loads: function that decodes a message.
        describe_error: function that describes an error for the other process. By default the
            description is the error's message, or the name of its class without a message.
    """

    def __init__(
        self,
        connection: "Connection[Any, Any]",
        functions: object = None,
        *,
        dumps: Callable[[Any], bytes] = pack,
        loads: Callable[[bytes], Any] = unpack,
        describe_error: Callable[[Exception], Any] = lambda error: (
            str(error) or type(error).__name__
        ),
    ) -> None:
        self._connection, self._functions = connection, functions
        self._dumps, self._loads, self._describe_error = dumps, loads, describe_error
        self._lock = threading.RLock()

    def call(self, name: str, *arguments: Any, timeout: float | None = None) -> tuple[str, Any]:
        """Call a function of the other process, and return its reply.

        While this process waits, it runs the functions of `functions` that the other process calls.

        Args:
            name: name of the function.
            *arguments: arguments of the function.
            timeout: seconds to wait for the reply; None waits as long as the process lives.

        Returns:
            ("result", value) or ("error", description).

        Raises:
            TimeoutError: there was no reply in time.
            EOFError, ConnectionError: the other process has ended.
        """
        with self._lock:
            self._send("call", name, arguments)
            while True:
                if not self._connection.poll(timeout):
                    raise TimeoutError
                kind, *content = self._loads(self._connection.recv_bytes())
                if kind in ("result", "error"):
                    return kind, content[0]
                self._carry_out(kind, *content)

    def notify(self, name: str, *arguments: Any) -> None:
        """Call a function of the other process, and do not wait for a reply."""
        self._send("notice", name, arguments)

    def serve(self) -> None:
        """Run the functions that the other process calls, until it closes the connection."""
        while True:
            try:
                message = self._connection.recv_bytes()
            except (EOFError, ConnectionError):
                return
            self._carry_out(*self._loads(message))

    def _send(self, *message: Any) -> None:
        with self._lock:
            self._connection.send_bytes(self._dumps(message))

    def _carry_out(self, kind: str, name: str, arguments: Sequence[Any]) -> None:
        try:
            reply = self._dumps(("result", getattr(self._functions, name)(*arguments)))
        except Exception as error:
            reply = self._dumps(("error", self._describe_error(error)))
        if kind == "call":
            with self._lock:
                self._connection.send_bytes(reply)


def end_with_parent() -> None:
    """Start a thread that ends this process if the parent process has ended or was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
