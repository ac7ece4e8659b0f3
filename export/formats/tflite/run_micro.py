"""Worker script: run the main graph of a TFLite file with TensorFlow Lite Micro."""

import os
import pathlib
import re
import tempfile

import numpy as np
import worker_protocol as protocol
from tflite_micro.python.tflite_micro import runtime


def load(options: protocol.Options) -> protocol.Loaded:
    """Load the TFLite file `options["path"]` into a memory arena of `options["arena"]` bytes.

    The options `inputs` and `outputs` are dicts: name -> index among the main graph's inputs or
    outputs.
    """
    content = pathlib.Path(options["path"]).read_bytes()
    with tempfile.TemporaryFile() as log:
        # Write stderr (file descriptor 2) to `log`. The exception itself lacks the error's cause.
        terminal = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            interpreter = runtime.Interpreter.from_bytes(content, arena_size=options["arena"])
            interpreter.invoke()
        except RuntimeError as error:
            log.seek(0)
            raise RuntimeError(reason(log.read().decode(errors="replace"))) from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
    inputs, outputs = options["inputs"], options["outputs"]
    details = {name: interpreter.get_input_details(index) for name, index in inputs.items()}

    def run(arrays: protocol.Arrays) -> protocol.Arrays:
        for name, array in arrays.items():
            interpreter.set_input(array, inputs[name])
        interpreter.invoke()
        return {n: interpreter.get_output(i) for n, i in outputs.items()}

    specs = {n: (d["shape"].tolist(), np.dtype(d["dtype"]).name) for n, d in details.items()}
    return protocol.Loaded({"inputs": specs}, run)


def reason(log: str) -> str:
    """Extract the runtime's error from its log, in one line."""
    if missing := re.search(r"Didn't find op for builtin opcode '(\w+)'", log):
        return f"TensorFlow Lite Micro has no operation {missing[1]}"
    if unsupported := re.search(r".*not supported.*", log):
        return unsupported[0].strip()
    last = log.strip().splitlines()[-1:] or ["the runtime gave no reason"]
    return f"the memory arena is too small for the file: {last[0]}"


if __name__ == "__main__":
    protocol.serve(load)
