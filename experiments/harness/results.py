"""The results of an example, kept as they come, so that one that was stopped goes on."""

import dataclasses
import functools
import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.harness.command import Command
from keras_norm.export.exporting.staging import replace_text

Entry = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """One training: which model learns what, and from which seed."""

    task: str
    model: str
    seed: int

    @property
    def name(self) -> str:
        """For a person, and for the files of the run."""
        return f"{self.task}, {self.model}, seed {self.seed}"


class Results:
    """Measurements in a JSON file, each made once.

    Args:
        command: what was asked for; `results.json` in its folder has what was measured before.

    Attributes:
        path: of the file.
        entries: the measurements by section.

    Raises:
        SystemExit: the file has those of other settings.
    """

    def __init__(self, command: Command[Any]) -> None:
        self.path = command.out / "results.json"
        self._head = {
            "example": command.example,
            "preset": command.preset,
            "seed": command.seed,
            "settings": dataclasses.asdict(command.settings),
        }
        self.entries: dict[str, list[Entry]] = {}
        if self.path.exists():
            found = json.loads(self.path.read_text(encoding="utf-8"))
            head = json.loads(json.dumps(self._head))  # tuples become lists
            if any(found[name] != value for name, value in head.items()):
                raise SystemExit(
                    f"{self.path} has results of other settings: remove it (after `make "
                    "experiments` the one in docs/experiments too), or give another --out"
                )
            self.entries = found["entries"]
            print(f"Taken from {self.path}: what it has. Remove it to measure all anew.")

    def once(self, section: str, key: Run, measure: Callable[[], Entry]) -> Entry:
        """What a run gave, measured unless it was before.

        Args:
            section: of the file, such as "runs".
            key: the run.
            measure: gives what there is to keep, in JSON's types.

        Returns:
            The key's fields, what was measured, and the `seconds` that it took.
        """
        section_entries = self.entries.setdefault(section, [])
        for entry in section_entries:
            if run_of(entry) == key:
                return entry
        if section == "runs":  # a check was of another training
            self.entries["checks"] = [e for e in self.entries.get("checks", []) if run_of(e) != key]
        started = time.perf_counter()
        entry = {**dataclasses.asdict(key), **measure()}
        entry["seconds"] = round(time.perf_counter() - started, 1)
        section_entries.append(entry)
        self._write()
        return entry

    def once_of_best(
        self,
        runs: Sequence[Entry],
        models: Sequence[str],
        check: Callable[[Run], Entry],
        metric: str,
        choose: Callable[..., Any] = max,
    ) -> list[Entry]:
        """Check the best run of every model on every task, unless it passed before.

        Args:
            runs: entries to choose among.
            models: names of models that these have.
            check: gives what there is to keep of a run's check, `passed` among it.
            metric: name among the `curves` of what says which run is best.
            choose: `max` where more of it is better, or `min`.

        Returns:
            The section "checks", in which no others are left.
        """

        def score(entry: Entry) -> float:
            return choose(entry["curves"][metric])

        best = [
            run_of(choose(by_model[model], key=score))
            for by_model in grouped(runs).values()
            for model in models
        ]
        checks = self.entries.get("checks", [])
        self.entries["checks"] = [e for e in checks if e["passed"] and run_of(e) in best]
        return [self.once("checks", run, functools.partial(check, run)) for run in best]

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {**self._head, "machine": _machine(), "entries": self.entries}
        replace_text(self.path, json.dumps(content, indent=1) + "\n")


def run_of(entry: Entry) -> Run:
    """The run of an entry."""
    return Run(entry["task"], entry["model"], entry["seed"])


def grouped(entries: Iterable[Entry]) -> dict[str, dict[str, list[Entry]]]:
    """The entries of every seed, by task and by model."""
    groups: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        groups.setdefault(entry["task"], {}).setdefault(entry["model"], []).append(entry)
    return groups


def _machine() -> dict[str, Any]:
    """What the figures depend on beside the settings."""
    versions = {name: importlib.metadata.version(name) for name in ("tensorflow", "keras")}
    return {"processors": os.cpu_count(), **versions}
