"""Exchange messages with a worker process, which runs an exported file, over stdin and stdout.

A message has a JSON object and any number of dicts of arrays. Two lengths precede the JSON object
and the arrays, in eight bytes each (little-endian). This module depends on NumPy only, because a
worker must not import Keras or this package.

The runner sends a request with arguments. The worker replies with a report (a JSON value), with
arrays, or with both:

    request            arguments                             reply
    load               options; replaces the loaded model    report: input names, shapes and dtypes
    run                inputs                                outputs
    stream             whole sequences and other inputs      outputs; see `run_over_time`
    threads            several dicts of inputs               report and arrays; see `run_at_once`
    modules                                                  report: the imported modules
    variable_digests                                         report: digests of the variables
    seconds                                                  report: duration of the last call

If a request fails, the reply is an error text. If `load` fails, the worker also ends.
"""

import concurrent.futures
import io
import itertools
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

# The types of `keras_norm.typing`, which a worker cannot import.
Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]
Json: TypeAlias = Any
Options: TypeAlias = dict[str, Json]
Run = Callable[[Arrays], Arrays]


class Loaded(NamedTuple):
    """A model loaded in a worker process: its description, and functions to run and inspect it.

    Attributes:
        report: describes the model to the runner; JSON can store it.
        run: a function from input arrays to output arrays, or None if the worker only converts.
        variable_digests: a function that returns a digest of each variable by name.
    """

    report: Json
    run: Run | None = None
    variable_digests: Callable[[], dict[str, str]] = dict


def write_message(
    stream: IO[bytes], header: Mapping[str, Json], cases: Sequence[Mapping[str, Array]] = ()
) -> None:
    """Write one message to a stream, and flush the stream.

    Args:
        stream: the stream to write to.
        header: a dict that JSON can store.
        cases: dicts of arrays by name.
    """
    text = json.dumps({**header, "cases": len(cases)}).encode()
    arrays = pack_arrays(
        {f"{i}:{name}": a for i, case in enumerate(cases) for name, a in case.items()}
    )
    stream.write(struct.pack("<QQ", len(text), len(arrays)) + text)
    stream.write(arrays)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Json], list[Arrays]] | None:
    """Read one message that `write_message` wrote; return None at the end of the stream."""
    lengths = stream.read(16)
    if len(lengths) < 16:
        return None
    length, rest = struct.unpack("<QQ", lengths)
    text, arrays = stream.read(length), stream.read(rest)
    if len(arrays) < rest:
        return None
    header = json.loads(text)
    cases: list[Arrays] = [{} for _ in range(header.pop("cases"))]
    for numbered, array in unpack_arrays(arrays).items():
        number, _, name = numbered.partition(":")
        cases[int(number)][name] = array
    return header, cases


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Encode named arrays as .npz, which `unpack_arrays` reads without pickle.

    The names are stored in a separate array, because `np.savez` rejects names such as "file". A
    bfloat16 array is stored as float32 (exact), because .npz does not support bfloat16. An array of
    bytes objects, which is text, is stored as bytes of fixed width.
    """
    # A worker cannot import `keras_norm.export.compare.arrays.to_numpy`, so this function
    # repeats the conversion of bfloat16 to float32.
    values = [np.asarray(a) for a in arrays.values()]
    values = [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in values]
    values = [a.astype(np.bytes_) if a.dtype.kind == "O" else a for a in values]
    buffer = io.BytesIO()
    np.savez(buffer, np.array(list(arrays), dtype=np.str_), *values)
    return buffer.getvalue()


def unpack_arrays(payload: bytes) -> Arrays:
    """Decode named arrays that `pack_arrays` encoded."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        names, *values = (archive[f"arr_{i}"] for i in range(len(archive.files)))
    return dict(zip(names.tolist(), values, strict=True))


def run_over_time(
    run: Callable[[Arrays], Mapping[str, Array]],
    sequences: Arrays,
    others: Arrays,
    states: Sequence[str],
) -> Arrays:
    """Call `run` once for every timestep, each time with the states of the previous call.

    Args:
        run: the single-step model, a function from input arrays to output arrays.
        sequences: inputs with a time axis, (batch, time, ...), all of equal length.
        others: inputs without a time axis: the initial states, and inputs that are equal at every
            timestep.
        states: names of the states.

    Returns:
        Every output after each timestep, (batch, time, ...), without the states.

    Raises:
        ValueError: the outputs lack a state.
    """
    (length,) = {array.shape[1] for array in sequences.values()}
    steps: list[Arrays] = []
    for t in range(length):
        outputs = run({name: array[:, t] for name, array in sequences.items()} | others)
        if missing := set(states) - outputs.keys():
            raise ValueError(f"the outputs lack the state {', '.join(sorted(missing))}")
        others = others | {name: outputs[name] for name in states}
        steps.append({n: np.asarray(a) for n, a in outputs.items() if n not in states})
    return {name: np.stack([step[name] for step in steps], axis=1) for name in steps[0]}


def run_at_once(
    run: Run, cases: Sequence[Arrays], threads: int, seconds: float
) -> tuple[int, list[Arrays]]:
    """Call `run` on many threads at once, with several different inputs, to test concurrency.

    Args:
        run: a function from input arrays to output arrays.
        cases: dicts of inputs. At most as many cases as threads, so that every case is run.
        threads: number of threads.
        seconds: duration of the test. Every thread calls `run` at least once.

    Returns:
        (calls, extremes). `calls` is the number of calls. `extremes` has the lowest output values
        of every case, and after them the highest output values of every case, one dict per case.
    """
    barrier, lock = threading.Barrier(threads), threading.Lock()
    lowest: list[Arrays] = [{} for _ in cases]
    highest: list[Arrays] = [{} for _ in cases]

    def call_repeatedly(thread: int) -> int:
        barrier.wait()
        end = time.monotonic() + seconds
        for calls in itertools.count(1):
            case = (thread + calls) % len(cases)
            outputs = run(cases[case])
            with lock:
                # np.minimum and np.maximum return NaN if an output is NaN, so NaN is not lost.
                for name, value in outputs.items():
                    lowest[case][name] = np.minimum(lowest[case].get(name, value), value)
                    highest[case][name] = np.maximum(highest[case].get(name, value), value)
            if time.monotonic() >= end:
                break
        return calls

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        calls = sum(pool.map(call_repeatedly, range(threads)))
    return calls, [*lowest, *highest]


def serve(load: Callable[[Options], Loaded | tuple[Json, Run | None]]) -> None:
    """Run a worker: read requests from stdin, and write replies to stdout, until stdin ends.

    Args:
        load: a function from the options of the request `load` to a `Loaded`. An exception in
            `load` or in `run` is sent as an error text.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries go to stderr, because stdout has the messages

    model = Loaded(None)
    seconds = 0.0

    def reply_to(
        request: str, arguments: dict[str, Json], cases: list[Arrays]
    ) -> tuple[Json, list[Arrays]]:
        """Carry out a request to the worker; return the JSON value and the arrays of the reply."""
        nonlocal model, seconds
        if request == "load":
            model = Loaded(*load(arguments["options"]))
            return model.report, []
        if request == "modules":
            return sorted({n.partition(".")[0] for n, m in sys.modules.items() if m}), []
        if request == "variable_digests":
            return model.variable_digests(), []
        if request == "seconds":
            return seconds, []
        if model.run is None:
            raise ValueError(
                f'the request "{request}" needs a loaded model. Send the request "load" first'
            )
        if request == "threads":
            return run_at_once(model.run, cases, **arguments)
        start, calls = time.perf_counter(), 1
        if request == "stream":
            sequences, others = cases
            calls = next(iter(sequences.values())).shape[1]
            outputs = run_over_time(model.run, sequences, others, arguments["states"])
        else:
            outputs = model.run(*cases)
        seconds = (time.perf_counter() - start) / calls
        return None, [outputs]

    while (message := read_message(requests)) is not None:
        header, cases = message
        try:
            report, outputs = reply_to(header["request"], header["arguments"], cases)
            write_message(replies, {"report": report}, outputs)
        except Exception as error:
            write_message(replies, {"error": str(error) or type(error).__name__})
            if header["request"] == "load":
                return


def _end_with(parent: int) -> None:
    """End this worker soon after its parent process ends, also if the parent was killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
