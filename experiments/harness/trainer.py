"""Train one run from its last checkpoint until validation stops improving."""

import dataclasses
import json
import os
import pathlib
import time
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from experiments.harness import run_scores, sample_scores
from experiments.harness.results_file import settings
from experiments.harness.study import Parts, Run, SampleScores, Scores, Size, Training
from keras_norm.named_layers import batch_norms
from keras_norm.recalibration.recalibrate import recalibrate

EVALUATION_BATCH = 128
CALIBRATION_BATCHES = 50  # training batches that recompute the batch statistics
HOUR = 7200.0  # processor seconds: the time limit of a run is one hour on two cores
CHECKPOINT_INTERVAL = 20.0  # seconds
STEPS_PER_EXECUTION = 15


@dataclasses.dataclass
class State:
    """The state of a training after some rounds: the next rounds depend on nothing else.

    Attributes:
        variables: variables of the model and the optimizer, with the seeds of dropout.
        best: the variables after the best round.
        history: validation scores of each round.
        measured: further scores, with the number of rounds before them.
        seconds: elapsed time.
        processors: processor time in seconds.
    """

    variables: list[np.ndarray]
    best: list[np.ndarray]
    history: list[Scores] = dataclasses.field(default_factory=list)
    measured: list[tuple[int, Scores]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    processors: float = 0.0

    def save(self, path: pathlib.Path, size: Size) -> None:
        """Write the state and the settings to a file in one atomic step."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished.npz")
        arrays = {f"variable{i}": value for i, value in enumerate(self.variables)}
        arrays |= {f"best{i}": value for i, value in enumerate(self.best)}
        history = [settings(size), self.history, self.measured, self.seconds, self.processors]
        np.savez(unfinished, history=json.dumps(history), **arrays)
        os.replace(unfinished, path)

    @classmethod
    def load(cls, path: pathlib.Path, size: Size, like: Sequence[np.ndarray]) -> "State | None":
        """Read the state from a file.

        Args:
            path: path of the file.
            size: the settings of the run.
            like: variables of the model.

        Returns:
            The state. None if the file is missing or damaged, or has other settings or shapes.
        """
        try:
            with path.open("rb") as file, np.load(file) as arrays:
                saved_settings, *history = json.loads(str(arrays["history"]))
                variables, best = (
                    [arrays[f"{name}{i}"] for i in range((len(arrays.files) - 1) // 2)]
                    for name in ("variable", "best")
                )
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        shapes = [array.shape for array in variables]
        same = saved_settings == json.loads(json.dumps(settings(size)))
        same = same and shapes == [array.shape for array in like]
        return cls(variables, best, *history) if same else None


class Trainer:
    """Train the runs of one arm with a model that is traced once.

    Args:
        work: data, model, loss and scores.
        size: number of rounds and patience.
        parts: the data.
        build: returns the uncompiled model.
        folder: folder for checkpoints.
    """

    def __init__(
        self,
        work: Training,
        size: Size,
        parts: Parts,
        build: Callable[[], keras.Model],
        folder: pathlib.Path,
    ) -> None:
        self.work, self.size, self.parts = work, size, parts
        self.build, self.folder = build, folder
        self.model = self._compiled()
        self.recalibrated = bool(work.recalibrated and batch_norms(self.model))

    def _compiled(self) -> keras.Model:
        model = self.build()
        optimizer = keras.optimizers.Adam(global_clipnorm=1.0)
        model.compile(optimizer, self.work.loss, jit_compile=self.work.compiled)
        optimizer.build(model.trainable_variables)
        return model

    def run(self, run: Run) -> dict[str, Any]:
        """Train until validation has not improved for `Size.patience` rounds.

        A run that has not reached `Training.learned` continues. A trial is not tested.

        Returns:
            The entry of the results file. It has the test and validation scores of the best round,
            the validation scores of every round, the reason why the run ended, and its time. With
            one seed, it also has the scores of every test sample.
        """
        checkpoint = self.folder / f"{run.name}.npz"
        state = State.load(checkpoint, self.size, self._values()) or self._first(run)
        self._restore(state.variables)
        saved = time.monotonic()
        while not (ended := self._ended(state, run)):
            started, used = time.monotonic(), time.process_time()
            self._train(run, len(state.history))
            state.history.append(sample_scores.means(self._scores("validation")))
            state.variables = self._values()
            if self._best_round(state.history) == len(state.history) - 1:
                state.best = state.variables
            if self.work.measure and self.work.every and not len(state.history) % self.work.every:
                found = self.work.measure(self.model, self.parts)
                state.measured.append((len(state.history), sample_scores.means(found)))
            state.seconds += time.monotonic() - started
            state.processors += time.process_time() - used
            if time.monotonic() - saved > CHECKPOINT_INTERVAL:
                state.save(checkpoint, self.size)
                saved = time.monotonic()
        if run.trial:
            state.save(checkpoint, self.size)  # the run with this learning rate starts here
            return self._entry(ended, state, {}, run)
        self._restore(state.best)
        test = dict(self._scores("test"))
        if self.work.measure:
            measured = dict(state.measured)
            best = self._best_round(state.history)
            test |= measured.get(best + 1) or self.work.measure(self.model, self.parts)
        entry = self._entry(ended, state, test, run)
        if self.work.drawings and run.seed == 0:
            entry["drawings"] = self.work.drawings.make(self.model, self.parts)
        checkpoint.unlink(missing_ok=True)
        return entry

    def _entry(self, ended: str, state: State, test: SampleScores, run: Run) -> dict[str, Any]:
        best = self._best_round(state.history)
        entry: dict[str, Any] = {
            "ended": ended,
            "best_round": best + 1,
            "updates": self._in_round(run) // run.arm.batch,
            "epoch": round(len(self.parts["training"][1]) / run.arm.batch, 3),
            "test": sample_scores.means(test),
            "validation": state.history[best],
            "history": {
                name: [round(scores[name], 5) for scores in state.history]
                for name in state.history[0]
            },
            **({"measured": state.measured} if self.work.every else {}),
            "seconds": round(state.seconds, 1),
        }
        each = {name: value for name, value in test.items() if np.ndim(value)}
        if each and self.size.seeds == 1:
            entry["samples"] = {name: sample_scores.pack(value) for name, value in each.items()}
        return entry

    def _first(self, run: Run) -> State:
        keras.utils.set_random_seed(run.seed)
        self._restore(values(self._compiled()))
        self.model.optimizer.learning_rate = run.rate
        start = self._values()
        return State(start, start)

    def _train(self, run: Run, index: int) -> None:
        """Train for one round. The order of its samples depends only on the seed and the round."""
        inputs, targets = self.parts["training"]
        batch, in_round = run.arm.batch, self._in_round(run)
        rounds = max(len(targets) // in_round, 1)
        epoch, place = divmod(index, rounds)
        order = np.arange(len(targets))
        if not self.work.in_order:
            np.random.default_rng([run.seed, epoch]).shuffle(order)
        rows = order[place * in_round : (place + 1) * in_round]
        chosen = keras.tree.map_structure(lambda array: array[rows], inputs)
        # Several updates in one call halve the time of a small network. `predict` would retrace.
        self.model.steps_per_execution = STEPS_PER_EXECUTION
        self.model.fit(chosen, targets[rows], batch, shuffle=False, verbose=0)
        self.model.steps_per_execution = 1
        if self.recalibrated:
            few = keras.tree.map_structure(
                lambda array: array[: CALIBRATION_BATCHES * batch], chosen
            )
            starts = range(0, len(rows[: CALIBRATION_BATCHES * batch]), batch)
            batches = [
                keras.tree.map_structure(lambda a, s=s: a[s : s + batch], few) for s in starts
            ]
            recalibrate(self.model, batches)

    def _scores(self, part: str) -> SampleScores:
        inputs, targets = self.parts[part]
        outputs = self.model.predict(inputs, batch_size=EVALUATION_BATCH, verbose=0)
        return self.work.score(outputs, targets)

    def _in_round(self, run: Run) -> int:
        """Number of samples in a round: whole batches, and no incomplete last batch."""
        there = len(self.parts["training"][1])
        return max(min(self.size.per_round, there) // run.arm.batch, 1) * run.arm.batch

    def _best_round(self, history: list[Scores]) -> int:
        scores = np.array([scores[self.work.monitor] for scores in history])
        scores = np.where(np.isfinite(scores), scores, -np.inf if self.work.maximize else np.inf)
        return int(np.argmax(scores) if self.work.maximize else np.argmin(scores))

    def _ended(self, state: State, run: Run) -> str:
        rounds = len(state.history)
        scores = [scores[self.work.monitor] for scores in state.history]
        waited = rounds and rounds - 1 - self._best_round(state.history) >= self.size.patience
        if waited and run_scores.learned(self.work, scores):
            return "validation"
        if run.trial and rounds >= (self.size.trial or 0):
            return "trial"
        if rounds >= self.size.rounds:
            return "rounds"
        return "hour" if state.processors > HOUR else ""

    def _values(self) -> list[np.ndarray]:
        return values(self.model)

    def _restore(self, state: list[np.ndarray]) -> None:
        for variable, value in zip(variables(self.model), state, strict=True):
            variable.assign(value)


def variables(model: keras.Model) -> list[keras.Variable]:
    """Return all variables that training changes."""
    return [*model.variables, *model.optimizer.variables]


def values(model: keras.Model) -> list[np.ndarray]:
    """Return copies of all variables that training changes."""
    return [np.array(variable) for variable in variables(model)]
