"""The results of a study's runs, in a JSON file with one line for each run."""

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
    """The finished runs of a study, stored in a JSON file.

    Args:
        path: path of the file. The file may be missing.
        study: the study.
        size: the settings of the runs.

    Raises:
        SystemExit: the file is incomplete, or its results have other settings.
    """

    def __init__(self, path: pathlib.Path, study: Study, size: Size) -> None:
        self.path = path
        self._head = json.loads(json.dumps({"study": study.name, **settings(size)}))
        self.entries: list[Entry] = []
        if not path.exists():
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            self.entries = found["runs"]
        except (ValueError, LookupError, TypeError) as error:
            raise SystemExit(
                f"{path} is not a results file ({error}): remove it to run the study again"
            ) from error
        differ = [name for name, value in self._head.items() if found.get(name) != value]
        if differ:
            raise SystemExit(
                f"{path} has results with another value of {', '.join(differ)}: remove it and "
                f"build/experiments/{study.name} to run the study again"
            )

    def find(self, run: Run) -> Entry | None:
        """Return the results of a run; None if it has not finished."""
        key = key_of(run)
        return next((e for e in self.entries if key.items() <= {"trial": False, **e}.items()), None)

    def add(self, run: Run, entry: Entry) -> Entry:
        """Store the results of a run and write the file."""
        entry = {**key_of(run), **entry}
        self.entries.append(entry)
        head = {**self._head, "machine": machine()}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        runs = ",\n".join(f"  {json.dumps(e)}" for e in self.entries)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, "{\n" + ",\n".join(lines) + f',\n "runs": [\n{runs}\n ]\n}}\n')
        return entry


def settings(size: Size) -> dict[str, Any]:
    """Return the settings that results depend on; a study may get more seeds or rounds later."""
    found = dataclasses.asdict(size)
    return {name: value for name, value in found.items() if name not in ("seeds", "rounds")}


def key_of(run: Run) -> Entry:
    """Return the values that identify a run in the file."""
    arm = dataclasses.asdict(run.arm)
    return {**arm, "rate": run.rate, "seed": run.seed, "trial": run.trial}


def machine() -> dict[str, Any]:
    """Return the number of processors and the library versions, which the run time depends on."""
    versions = {name: importlib.metadata.version(name) for name in ("tensorflow", "keras")}
    return {"processors": os.cpu_count(), **versions}
