"""Run Python with another Keras backend in a child process."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def run_on_backend(backend, *arguments):
    """Run `python ARGUMENTS` on a backend, and return the JSON value of the last line it prints.

    The test is skipped if the backend is not installed.
    """
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compilation takes most of the time
            # JAX finds the programs of the run before, by their code and the kind of processor.
            "JAX_COMPILATION_CACHE_DIR": str(ROOT / "build" / "jax_programs"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
