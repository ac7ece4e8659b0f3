"""docs/serving.md, from its first line to its last, on the stand-in for a server."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess

import pytest

pytest.importorskip("tensorflow_serving")


from tests.export.serving import servers

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "serving.md"


def assert_says(shown, answer):
    """Whether the answer is what the page shows, up to the last digits of its numbers."""
    if isinstance(shown, dict):
        assert list(shown) == list(answer)
        shown, answer = list(shown.values()), list(answer.values())
    if isinstance(shown, list):
        for one, other in zip(shown, answer, strict=True):
            assert_says(one, other)
    elif isinstance(shown, float):
        assert answer == pytest.approx(shown, rel=1e-4)
    else:
        assert answer == shown


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_block_that_needs_no_server_of_its_own_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, said, ports = {}, "", {}
    version = tmp_path / "served" / "tagger" / "1"
    with contextlib.ExitStack() as stack:
        for kind, block in re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
            if version.is_dir() and not ports:
                running = servers.stand_in({"tagger": {1: version}}, {"tagger": {"stable": 1}})
                rest, rpc = stack.enter_context(running)
                ports = {
                    "localhost:8501": f"127.0.0.1:{rest}",
                    "localhost:8500": f"127.0.0.1:{rpc}",
                }
            for documented, real in ports.items():
                block = block.replace(documented, real)
            if kind == "python":
                exec(compile(block, PAGE.name, "exec"), names)
            elif block.startswith("curl"):
                said = subprocess.run(
                    ["bash", "-c", block], check=True, capture_output=True, text=True
                ).stdout
            elif kind == "json":
                assert_says(json.loads(block), json.loads(said))
            elif kind == "text":
                assert block == said
    assert (tmp_path / "served" / "tagger" / "2" / "saved_model.pb").is_file()
