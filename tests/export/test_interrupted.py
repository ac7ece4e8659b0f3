"""An export that is interrupted, beside a version that a server has loaded."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.export import models

ROOT = pathlib.Path(__file__).parents[2]
SECONDS = 120.0


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.keras"
    models.recurrent().save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "said", "abandoned"),
    [
        (signal.SIGTERM, 130, ["keras-norm: interrupted"], 0),
        (signal.SIGKILL, -9, [], 1),
    ],
)
def test_an_interrupted_export_leaves_no_version_and_keeps_the_old_one(
    model_file, tmp_path, number, status, said, abandoned
):
    versions = tmp_path / "saved_model"
    (versions / "1").mkdir(parents=True)
    (versions / "1" / "saved_model.pb").write_bytes(b"the version that is served")
    before = contents(versions / "1")
    arguments = ["export", str(model_file), "--to", str(tmp_path), "--version", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_norm", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + SECONDS
    while not list(versions.glob(".2.*.tmp/2/*")):  # it has begun to write
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == status
    assert [line for line in errors.splitlines() if line.startswith("keras-norm")] == said
    assert not (versions / "2").exists()
    assert len(list(versions.glob(".2.*.tmp"))) == abandoned
    assert contents(versions / "1") == before
