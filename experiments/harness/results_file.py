"""The runs of a study that have ended, in a file that is whole at any time."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
from typing import Any

from experiments.harness.study import Run, Size, Study
from keras_norm.export.formats.staging import replace_text

Entry = dict[str, Any]


class ResultsFile:
    """Measurements in a JSON file, one line each, every one made once.

    Args:
        path: of the file, which may not be there yet.
        study: what is measured.
        size: how much of it.

    Raises:
        SystemExit: the file is cut off, or has results of other settings.
    """

    def __init__(self, path: pathlib.Path, study: Study, size: Size) -> None:
        self.path, self._rounds = path, size.rounds
        self._head = json.loads(json.dumps({"study": study.name, **settings(size)}))
        self.entries: list[Entry] = []
        if not path.exists():
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            self.entries = found["runs"]
        except (ValueError, LookupError, TypeError) as error:
            raise SystemExit(f"{path} is no file of results ({error}): remove it") from error
        differ = [name for name, value in self._head.items() if found.get(name) != value]
        if differ:
            raise SystemExit(
                f"{path} has results of another {', '.join(differ)}: remove it, and "
                f"build/experiments/{study.name}, to run all anew"
            )

    def find(self, run: Run) -> Entry | None:
        """What a run gave; None if it has not ended."""
        entry = self.latest(run)
        return None if entry is None or self.goes_on(entry) else entry

    def latest(self, run: Run) -> Entry | None:
        """The same, where a run that is to go on counts as well."""
        key = key_of(run)
        return next((e for e in self.entries if key.items() <= {"trial": False, **e}.items()), None)

    def goes_on(self, entry: Entry) -> bool:
        """Whether a bound on rounds ended a run, and it may have more rounds by now."""
        return entry.get("ended") == "rounds" and any(
            len(scores) < self._rounds for scores in entry["history"].values()
        )

    def add(self, run: Run, entry: Entry) -> Entry:
        """Keep what a run gave, in place of what it gave before it went on."""
        before, entry = self.latest(run), {**key_of(run), **entry}
        self.entries = [*(e for e in self.entries if e is not before), entry]
        head = {**self._head, "machine": machine()}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        runs = ",\n".join(f"  {json.dumps(e)}" for e in self.entries)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, "{\n" + ",\n".join(lines) + f',\n "runs": [\n{runs}\n ]\n}}\n')
        return entry


def settings(size: Size) -> dict[str, Any]:
    """What results depend on; more seeds can join those that are there, and runs can go on."""
    found = dataclasses.asdict(size)
    return {name: value for name, value in found.items() if name not in ("seeds", "rounds")}


def key_of(run: Run) -> Entry:
    """What a run is found by."""
    arm = dataclasses.asdict(run.arm)
    return {**arm, "rate": run.rate, "seed": run.seed, "trial": run.trial}


def machine() -> dict[str, Any]:
    """What the seconds depend on beside the settings."""
    versions = {name: importlib.metadata.version(name) for name in ("tensorflow", "keras")}
    return {"processors": os.cpu_count(), **versions}
