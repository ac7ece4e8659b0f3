"""How a runner and its worker process talk: messages over the worker's stdin and stdout.

A message is a JSON object and any number of dicts of arrays, after the lengths of both, in eight
bytes each (little-endian). It depends on NumPy alone, because a worker must not import what it is
there to do without. The runner asks, and the worker tells, or answers with arrays:

    load       what to load, in place of what is loaded     tells its names, shapes and dtypes
    run        inputs                                       the outputs
    stream     whole sequences, and what else there is      see `over_time`
    threads    several inputs                               tells how many calls; see `run_at_once`
    modules                                                 tells what it has imported
    state                                                   tells digests of its variables
    seconds                                                 tells how long the last call took

An error is a text instead. The worker ends where it cannot load.
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

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def write_message(
    stream: IO[bytes], header: Mapping[str, Any], cases: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Write a message, `header` being what JSON can hold, and flush it."""
    text = json.dumps({**header, "cases": len(cases)}).encode()
    arrays = pack_arrays(
        {f"{i}:{name}": a for i, case in enumerate(cases) for name, a in case.items()}
    )
    stream.write(struct.pack("<QQ", len(text), len(arrays)) + text)
    stream.write(arrays)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], list[Arrays]] | None:
    """Read what `write_message` wrote, or None where the stream ends."""
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

    def answer(ask: str, given: dict[str, Any], cases: list[Arrays]) -> tuple[Any, list[Arrays]]:
        """What is to be told, and outputs."""
        nonlocal run, seconds
        if ask == "load":
            info, run = load(given["request"])
            return info, []
        if ask == "modules":
            return sorted({n.partition(".")[0] for n, m in sys.modules.items() if m}), []
        if ask == "state":
            return getattr(run, "state", dict)(), []
        if ask == "seconds":
            return seconds, []
        if ask == "threads":
            return run_at_once(run, cases, **given)
        start, calls = time.perf_counter(), 1
        if ask == "stream":
            sequences, others = cases
            calls = next(iter(sequences.values())).shape[1]
            outputs = over_time(run, sequences, others, given["states"])
        else:
            outputs = run(*cases)
        seconds = (time.perf_counter() - start) / calls
        return None, [outputs]

    while (message := read_message(requests)) is not None:
        request, cases = message
        try:
            told, outputs = answer(request["ask"], request["given"], cases)
            write_message(replies, {"told": told}, outputs)
        except Exception as error:
            write_message(replies, {"error": str(error) or type(error).__name__})
            if request["ask"] == "load":
                return


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed while a model is converted."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
