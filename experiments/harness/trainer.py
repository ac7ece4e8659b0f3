"""One training, which goes on where it was stopped, and ends as if it never had been."""

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
from experiments.harness.study import Figures, Parts, Run, Scores, Size, Training
from keras_norm.named_layers import batch_norms
from keras_norm.recalibrate import Recalibrator

EVALUATED = 128  # samples of a batch that is only evaluated
CALIBRATED = 50  # training batches that statistics are computed from
HOUR = 7200.0  # seconds of processors, the most that a run may train: an hour of two cores
SAVE_EVERY = 20.0  # seconds
AT_ONCE = 15  # updates


@dataclasses.dataclass
class State:
    """A training after some rounds, with all that the next ones depend on.

    Attributes:
        variables: of the model and its optimizer; seeds of dropout are among them.
        best: the variables of the best round.
        history: scores of the validation, by round.
        measured: what was measured on the way, and after which round.
        seconds: that it took, whatever else the machine had to do.
        processors: seconds of processors that it took.
    """

    variables: list[np.ndarray]
    best: list[np.ndarray]
    history: list[Scores] = dataclasses.field(default_factory=list)
    measured: list[tuple[int, Scores]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    processors: float = 0.0

    def save(self, path: pathlib.Path, size: Size) -> None:
        """Write it in one step, with the settings that it is a result of."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished.npz")
        arrays = {f"variable{i}": value for i, value in enumerate(self.variables)}
        arrays |= {f"best{i}": value for i, value in enumerate(self.best)}
        told = [settings(size), self.history, self.measured, self.seconds, self.processors]
        np.savez(unfinished, history=json.dumps(told), **arrays)
        os.replace(unfinished, path)

    @classmethod
    def load(cls, path: pathlib.Path, size: Size, like: Sequence[np.ndarray]) -> "State | None":
        """What `save` wrote; None where that is not whole, of other settings, or of another model.

        Args:
            path: of the file.
            size: the settings.
            like: variables of the model.
        """
        try:
            with path.open("rb") as file, np.load(file) as arrays:
                made_by, *told = json.loads(str(arrays["history"]))
                variables, best = (
                    [arrays[f"{name}{i}"] for i in range((len(arrays.files) - 1) // 2)]
                    for name in ("variable", "best")
                )
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        shapes = [array.shape for array in variables]
        same = made_by == json.loads(json.dumps(settings(size)))
        same = same and shapes == [array.shape for array in like]
        return cls(variables, best, *told) if same else None


class Trainer:
    """Trains the runs of one arm, whose model is traced once.

    Args:
        work: how.
        size: how long.
        parts: the data.
        build: makes the model.
        folder: of the checkpoints.
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
        recalibrated = work.recalibrated and batch_norms(self.model)
        self.recalibrate = Recalibrator(self.model) if recalibrated else None

    def _compiled(self) -> keras.Model:
        model = self.build()
        optimizer = keras.optimizers.Adam(global_clipnorm=1.0)
        model.compile(optimizer, self.work.loss, jit_compile=self.work.compiled)
        optimizer.build(model.trainable_variables)
        return model

    def run(self, run: Run) -> dict[str, Any]:
        """Train until validation has not improved for `patience` rounds, once it has learned.

        Returns:
            What is kept of it: the scores of test and validation of the best round, the
            validation's of every round, and the updates of a round, what was measured on the way,
            why it ended, and seconds;
            where there is one seed, the scores of every test sample too, and what the model draws.
            A trial is not tested.
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
            if time.monotonic() - saved > SAVE_EVERY:
                state.save(checkpoint, self.size)
                saved = time.monotonic()
        if run.trial or ended == "rounds":
            state.save(checkpoint, self.size)  # the run may go on
        if run.trial:
            return self._kept(ended, state, {}, run)
        self._restore(state.best)
        test = dict(self._scores("test"))
        if self.work.measure:
            measured = dict(state.measured)  # of these very weights, if it was then
            best = self._best_round(state.history)
            test |= measured.get(best + 1) or self.work.measure(self.model, self.parts)
        kept = self._kept(ended, state, test, run)
        if self.work.drawings and run.seed == 0:
            kept["drawings"] = self.work.drawings.make(self.model, self.parts)
        if ended != "rounds":
            checkpoint.unlink(missing_ok=True)
        return kept

    def _kept(self, ended: str, state: State, test: Figures, run: Run) -> dict[str, Any]:
        best = self._best_round(state.history)
        kept: dict[str, Any] = {
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
            kept["samples"] = {name: sample_scores.packed(value) for name, value in each.items()}
        return kept

    def _first(self, run: Run) -> State:
        keras.utils.set_random_seed(run.seed)
        self._restore(values(self._compiled()))
        self.model.optimizer.learning_rate = run.rate
        start = self._values()
        return State(start, start)

    def _train(self, run: Run, index: int) -> None:
        """Learn from the samples of a round, whose order follows from seed and round alone."""
        inputs, targets = self.parts["training"]
        batch, in_round = run.arm.batch, self._in_round(run)
        rounds = max(len(targets) // in_round, 1)
        epoch, place = divmod(index, rounds)
        order = np.arange(len(targets))
        if not self.work.in_order:
            np.random.default_rng([run.seed, epoch]).shuffle(order)
        rows = order[place * in_round : (place + 1) * in_round]
        chosen = keras.tree.map_structure(lambda array: array[rows], inputs)
        # Many updates a call take half the time in small nets. `predict` would trace them all.
        self.model.steps_per_execution = AT_ONCE
        self.model.fit(chosen, targets[rows], batch, shuffle=False, verbose=0)
        self.model.steps_per_execution = 1
        if self.recalibrate:
            few = keras.tree.map_structure(lambda array: array[: CALIBRATED * batch], chosen)
            starts = range(0, len(rows[: CALIBRATED * batch]), batch)
            self.recalibrate(
                [keras.tree.map_structure(lambda a, s=s: a[s : s + batch], few) for s in starts]
            )

    def _scores(self, part: str) -> Figures:
        inputs, targets = self.parts[part]
        outputs = self.model.predict(inputs, batch_size=EVALUATED, verbose=0)
        return self.work.score(outputs, targets)

    def _in_round(self, run: Run) -> int:
        """Samples of a round: whole batches; what fills none waits for the next epoch's order."""
        there = len(self.parts["training"][1])
        return max(min(self.size.per_round, there) // run.arm.batch, 1) * run.arm.batch

    def _best_round(self, history: list[Scores]) -> int:
        scores = np.array([scores[self.work.monitor] for scores in history])
        scores = np.where(np.isfinite(scores), scores, -np.inf if self.work.higher else np.inf)
        return int(np.argmax(scores) if self.work.higher else np.argmin(scores))

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
    """All that a training changes."""
    return [*model.variables, *model.optimizer.variables]


def values(model: keras.Model) -> list[np.ndarray]:
    """Copies of them."""
    return [np.array(variable) for variable in variables(model)]
