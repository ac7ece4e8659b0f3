"""Worker: run the main graph of a TFLite file with TensorFlow Lite Micro."""

import os
import pathlib
import re
import tempfile
from typing import Any

import numpy as np
import worker_protocol as protocol
from tflite_micro.python.tflite_micro import runtime


def load(request: dict[str, Any]) -> tuple[dict[str, Any], protocol.Run]:
    """Load `request["path"]` into an arena of `request["arena"]` bytes.

    The request's `inputs` and `outputs` are dicts: name -> index in the main graph.
    """
    content = pathlib.Path(request["path"]).read_bytes()
    with tempfile.TemporaryFile() as log:
        # The runtime writes the error to stderr's file descriptor, not to the exception's message.
        terminal = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            interpreter = runtime.Interpreter.from_bytes(content, arena_size=request["arena"])
            interpreter.invoke()
        except RuntimeError as error:
            log.seek(0)
            raise RuntimeError(reason(log.read().decode(errors="replace"))) from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
    inputs, outputs = request["inputs"], request["outputs"]
    details = {name: interpreter.get_input_details(place) for name, place in inputs.items()}

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        for name, array in arrays.items():
            interpreter.set_input(array, inputs[name])
        interpreter.invoke()
        return {n: interpreter.get_output(i) for n, i in outputs.items()}

    taken = {n: (d["shape"].tolist(), np.dtype(d["dtype"]).name) for n, d in details.items()}
    return {"inputs": taken}, run


def reason(log: str) -> str:
    """Extract the runtime's error from its log, in one line."""
    if lacking := re.search(r"Didn't find op for builtin opcode '(\w+)'", log):
        return f"it has no operation {lacking[1]}"
    if unsupported := re.search(r".*not supported.*", log):
        return unsupported[0].strip()
    return f"it does not fit: {log.strip().splitlines()[-1] if log.strip() else 'no word why'}"


if __name__ == "__main__":
    protocol.serve(load)
