"""How a runner and its worker process talk: frames over the worker's stdin and stdout.

A frame is one byte of kind, eight bytes of length (little-endian) and the payload. It depends on
NumPy alone, because a worker must not import what it is there to do without.

    runner -> worker   LOAD     what to load, in place of what is loaded
    worker -> runner   JSON     loaded: its names, shapes and dtypes; or ERROR, and the worker ends
    runner -> worker   ARRAYS   inputs               worker -> runner   ARRAYS or ERROR
    runner -> worker   STREAM   whole sequences      worker -> runner   ARRAYS or ERROR
    runner -> worker   THREADS  several inputs       worker -> runner   THREADS or ERROR
    runner -> worker   JSON     what to tell: "modules" (imported), "state" (digests of variables),
                                "seconds" (of the last call)         worker -> runner   JSON
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
from typing import IO, Any

import numpy as np

LOAD, JSON, ARRAYS, STREAM, THREADS, ERROR = b"L", b"J", b"A", b"S", b"T", b"E"

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def write_frame(stream: IO[bytes], kind: bytes, payload: bytes) -> None:
    """Write one frame and flush it."""
    stream.write(kind + struct.pack("<Q", len(payload)))
    stream.write(payload)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Read one frame: (kind, payload), or None where the stream ends."""
    header = stream.read(9)
    if len(header) < 9:
        return None
    (length,) = struct.unpack("<Q", header[1:])
    payload = stream.read(length)
    return (header[:1], payload) if len(payload) == length else None


def pack_json(value: Any) -> bytes:
    """Encode a JSON payload."""
    return json.dumps(value).encode()


def pack_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Encode named arrays as .npz, which `unpack_arrays` reads without pickle.

    The names stand in an array of their own: a name such as "file" is none that `np.savez` takes.
    bfloat16, which .npz cannot hold, goes as float32 (exact).
    """
    values = [np.asarray(a) for a in arrays.values()]
    values = [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in values]
    buffer = io.BytesIO()
    np.savez(buffer, np.array(list(arrays), dtype=np.str_), *values)
    return buffer.getvalue()


def unpack_arrays(payload: bytes) -> Arrays:
    """Decode what `pack_arrays` encoded."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        names, *values = (archive[f"arr_{i}"] for i in range(len(archive.files)))
    return dict(zip(names.tolist(), values, strict=True))


def pack_cases(header: Mapping[str, Any], cases: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """Encode several dicts of arrays, and numbers that belong to all of them."""
    numbered = {f"{i}:{name}": a for i, case in enumerate(cases) for name, a in case.items()}
    numbers = pack_json(header)
    return struct.pack("<Q", len(numbers)) + numbers + pack_arrays(numbered)


def unpack_cases(payload: bytes) -> tuple[dict[str, Any], list[Arrays]]:
    """Decode what `pack_cases` encoded."""
    (length,) = struct.unpack("<Q", payload[:8])
    cases: dict[str, Arrays] = {}
    for numbered, array in unpack_arrays(payload[8 + length :]).items():
        number, _, name = numbered.partition(":")
        cases.setdefault(number, {})[name] = array
    return json.loads(payload[8 : 8 + length]), list(cases.values())


def over_time(
    run: Callable[[Arrays], Mapping[str, Any]],
    sequences: Arrays,
    others: Arrays,
    states: Sequence[str],
) -> Arrays:
    """Call `run` once for every timestep, from the states that the call before it gave.

    Args:
        run: from input arrays to output arrays.
        sequences: inputs with time, (batch, time, ...), all of one length.
        others: inputs without: the first states, and what every timestep is given alike.
        states: names of the states.

    Returns:
        Every output that is no state, of all timesteps: (batch, time, ...).
    """
    (length,) = {array.shape[1] for array in sequences.values()}
    answers = []
    for t in range(length):
        answer = run({name: array[:, t] for name, array in sequences.items()} | others)
        others = others | {name: answer[name] for name in states}
        answers.append({n: np.asarray(a) for n, a in answer.items() if n not in states})
    return {name: np.stack([answer[name] for answer in answers], axis=1) for name in answers[0]}


def run_at_once(
    run: Run, cases: Sequence[Arrays], threads: int, seconds: float
) -> tuple[int, list[Arrays]]:
    """Call `run` on many threads at once, each going through the cases from another one on.

    Args:
        run: from input arrays to output arrays.
        cases: inputs, no more of them than threads, so that each is run.
        threads: how many call at once.
        seconds: how long; every thread calls at least once.

    Returns:
        How many calls there were; and the lowest, then the highest values that they answered, each
        as one dict for every case.
    """
    together, turn = threading.Barrier(threads), threading.Lock()
    lowest: list[Arrays] = [{} for _ in cases]
    highest: list[Arrays] = [{} for _ in cases]

    def work(first: int) -> int:
        together.wait()
        end = time.monotonic() + seconds
        for calls in itertools.count(1):
            case = (first + calls) % len(cases)
            answer = run(cases[case])
            with turn:
                for name, value in answer.items():  # NaN in any answer stays NaN
                    lowest[case][name] = np.minimum(lowest[case].get(name, value), value)
                    highest[case][name] = np.maximum(highest[case].get(name, value), value)
            if time.monotonic() >= end:
                break
        return calls

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        calls = sum(pool.map(work, range(threads)))
    return calls, [*lowest, *highest]


def serve(load: Callable[[dict[str, Any]], tuple[dict[str, Any], Run | None]]) -> None:
    """Be a worker: load, then run on every request until stdin ends.

    Args:
        load: takes the request's JSON; returns what to report about the model, and a function
            from input arrays to output arrays, or None where loading was all there is to do. Its
            attribute `state`, where it has one, gives a digest of every variable by name.
            An exception in either is sent as text.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints must not write into the frames

    run: Any = None
    seconds = 0.0
    told: dict[str, Callable[[], Any]] = {
        "modules": lambda: sorted({n.partition(".")[0] for n, m in sys.modules.items() if m}),
        "state": lambda: getattr(run, "state", dict)(),
        "seconds": lambda: seconds,
    }
    while (frame := read_frame(requests)) is not None:
        kind, payload = frame
        if kind == LOAD:
            try:
                info, run = load(json.loads(payload))
            except Exception as error:
                write_frame(replies, ERROR, _text(error))
                return
            write_frame(replies, JSON, pack_json(info))
            continue
        if kind == JSON:
            write_frame(replies, JSON, pack_json(told[json.loads(payload)]()))
            continue
        try:
            if kind == STREAM:
                header, (sequences, others) = unpack_cases(payload)
                start = time.perf_counter()
                outputs = over_time(run, sequences, others, header["states"])
                length = next(iter(sequences.values())).shape[1]
                seconds = (time.perf_counter() - start) / length
                write_frame(replies, ARRAYS, pack_arrays(outputs))
            elif kind == THREADS:
                how, cases = unpack_cases(payload)
                calls, spans = run_at_once(run, cases, **how)
                write_frame(replies, THREADS, pack_cases({"calls": calls}, spans))
            else:
                inputs = unpack_arrays(payload)
                start = time.perf_counter()
                outputs = run(inputs)
                seconds = time.perf_counter() - start
                write_frame(replies, ARRAYS, pack_arrays(outputs))
        except Exception as error:
            write_frame(replies, ERROR, _text(error))


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed while a model is converted."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _text(error: Exception) -> bytes:
    return (str(error) or type(error).__name__).encode()
