"""What a study is: who is compared with whom, on what, and what decides, written before it runs."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import matplotlib.axes
import numpy as np

# Inputs and targets by part: "training", "validation", "test" (and what else a study tests).
Parts = Mapping[str, tuple[Any, np.ndarray]]

Scores = dict[str, float]

# Scores by name; an array has one for every sample, or part of a text, and its mean is the score.
Figures = Mapping[str, float | np.ndarray]


@dataclasses.dataclass(frozen=True)
class Arm:
    """A model on a task.

    Attributes:
        task: name of what is learned.
        model: name of the model.
        batch: samples of an update.
    """

    task: str
    model: str
    batch: int = 128


@dataclasses.dataclass(frozen=True)
class Run:
    """An arm, trained once.

    Attributes:
        arm: which.
        rate: of learning.
        seed: of all that is random.
        trial: whether it is trained for the first rounds alone, to choose the rate by.
    """

    arm: Arm
    rate: float
    seed: int
    trial: bool = False

    @property
    def name(self) -> str:
        """For a person, and for the file of its checkpoint: a trial's is where the run goes on."""
        return f"{self.arm.task}, {self.arm.model}, rate {self.rate:g}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class Size:
    """How much of it is run.

    Attributes:
        samples: training samples that there are; None for all.
        per_round: samples between two validations.
        rounds: the most that a run has; with more of them, one that they ended goes on.
        patience: rounds without a better validation that end it.
        seeds: how often every arm is run.
        rates: learning rates that validation chooses from, for every arm the same.
        trial: rounds after which it chooses, and the best rate alone goes on; None where every rate
            is run to its end first.
    """

    samples: int | None
    per_round: int
    rounds: int
    patience: int
    seeds: int
    rates: tuple[float, ...]
    trial: int | None = None

    @property
    def later_seeds(self) -> range:
        """The seeds of the runs that follow once the learning rate is chosen."""
        return range(1 if self.trial is None else 0, self.seeds)


@dataclasses.dataclass(frozen=True)
class Drawings:
    """What models draw once they are trained, those of seed 0.

    Attributes:
        make: plain numbers, few enough to be kept, from a model and the data.
        draw: draws them.
        caption: what the picture shows, for the page.
    """

    make: Callable[[keras.Model, Parts], list[Any]]
    draw: Callable[[matplotlib.axes.Axes, Any], None]
    caption: str


@dataclasses.dataclass(frozen=True)
class Training:
    """Arms that are trained until their validation stops improving.

    Attributes:
        load: the data of a task, from its name, the number of training samples (None: all) and the
            data folder.
        build: a model that is not compiled, from an arm and the data.
        loss: of Keras, by name or as a function of targets and outputs.
        score: from what the model gives for a part's inputs, and the targets; one of every sample
            where there is one seed, and the test set is resampled.
        monitor: the score that says which round is best.
        higher: whether more of it is better.
        recalibrated: whether batch statistics are computed anew before each validation, as a
            recurrence needs it.
        measure: further figures of the model that is kept, from it and the data.
        compiled: whether XLA compiles whole updates, which then take half the time in a net that
            has no recurrence; a recurrence compiles its own.
        in_order: whether samples are learned in the order in which they are; else it is random.
        every: rounds between two times that `measure` is taken on the way too; 0 for never.
        level: of the score `monitor`, of all tasks or of each; how many `epochs` a run took to
            reach it is then a score too, between two validations by a straight line.
        learned: of the same score; a run that never had it has not learned, and decides nothing.
            Nor does patience end a run before: it would end on a plateau.
        chosen: a score, the less the better, by which the learning rate is chosen in place of
            `monitor`: on a plateau, that one is noise.
        drawings: what the models draw, if they do.
    """

    load: Callable[[str, int | None, pathlib.Path | None], Parts]
    build: Callable[[Arm, Parts], keras.Model]
    loss: str | Callable[..., Any]
    score: Callable[[np.ndarray, np.ndarray], Figures]
    monitor: str
    higher: bool = True
    recalibrated: bool = False
    compiled: bool = False
    in_order: bool = False
    measure: Callable[[keras.Model, Parts], Figures] | None = None
    every: int = 0
    level: float | Mapping[str, float] | None = None
    learned: float | None = None
    chosen: str | None = None
    drawings: Drawings | None = None

    def level_of(self, task: str) -> float:
        """The level of a task; there must be one."""
        level = self.level[task] if isinstance(self.level, Mapping) else self.level
        assert level is not None
        return level


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Arms that are measured as they are, from an arm, a seed and the data folder."""

    measure: Callable[[Arm, int, pathlib.Path | None], Scores]


@dataclasses.dataclass(frozen=True)
class Question:
    """A part of a claim, and the figure that decides it.

    The figure is a sum of scores less another, taken seed by seed: runs of a seed have the same
    data in the same order. It is "yes" where the 95 % interval of its mean over the seeds is above
    `above`, "no" where all of it is below, and else not decided. Where there is one seed, the
    interval is that of its mean over the test samples, which are drawn again and again. Nor is it
    decided where a run never reached the level that is asked for, or never learned; where it asks
    for anything but `epochs`, neither if the bound on rounds ended a run before validation did.

    Attributes:
        claim: its number in docs/experiments.md.
        part: what "yes" means.
        score: name of a test score.
        plus: arms (task, model) whose scores are added.
        minus: arms whose scores are taken away.
        above: what counts as a difference, in the score's unit times `scale`.
        scale: factor to the unit of the page.
        unit: of the page.
        digits: after the point.
        largest_rate: whether a score is that of the largest learning rate, not of the chosen one.
    """

    claim: int
    part: str
    score: str
    plus: tuple[tuple[str, str], ...] = ()
    minus: tuple[tuple[str, str], ...] = ()
    above: float = 0.0
    scale: float = 1.0
    unit: str = ""
    digits: int = 2
    largest_rate: bool = False


@dataclasses.dataclass(frozen=True)
class Curve:
    """What is drawn of a run: plus + factor * score.

    Attributes:
        score: of the validations; or of what is measured on the way.
        label: of its axis.
        factor: to the unit of the label.
        plus: what is added to that.
        log: whether the axis is logarithmic, where all values are positive.
    """

    score: str
    label: str
    factor: float = 1.0
    plus: float = 0.0
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of Ba et al. 2016, to be drawn alike.

    Attributes:
        number: its own.
        paper: what it shows, over what.
        here: what ours shows.
        along: "updates" or "epochs", which the curves are over.
        curves: ours.
        ends: scores that tell how it ends, and what the paper says of them, by model; nothing
            where it has curves alone.
    """

    number: int
    paper: str
    here: str
    along: str
    curves: tuple[Curve, ...]
    ends: Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class Study:
    """One file of `experiments`.

    Attributes:
        name: of the file, and of its results.
        title: for the page.
        paper: what the paper did.
        otherwise: what we do otherwise; first what is smaller.
        changed: what was changed, or asked, when runs had been seen.
        work: what is done for every arm.
        arms: what is compared.
        questions: what decides.
        full: how much is run.
        smoke: how much the tests run.
        minutes: that one run of `full` takes, as timed before the first; 60, where the hour alone
            is its bound.
        scores: shown on the page: heading, factor and digits by name.
        figures: what the paper has, by (task, model), under the first of `scores`.
        figure: the one of Ba et al. 2016 that it asks about, if there is one.
    """

    name: str
    title: str
    paper: str
    otherwise: str
    work: Training | Measurement
    arms: tuple[Arm, ...]
    questions: tuple[Question, ...]
    full: Size
    smoke: Size
    minutes: float
    scores: Mapping[str, tuple[str, float, int]]
    changed: str = ""
    figures: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    figure: Figure | None = None

    def arm(self, task: str, model: str) -> Arm:
        """The arm of these names."""
        return next(a for a in self.arms if (a.task, a.model) == (task, model))

    @property
    def at_largest_rate(self) -> set[tuple[str, str]]:
        """The arms of which a question asks for the largest of the learning rates."""
        return {arm for q in self.questions if q.largest_rate for arm in (*q.plus, *q.minus)}


def arms(tasks: Mapping[str, int], models: Sequence[str]) -> tuple[Arm, ...]:
    """Every model on every task, whose batch size is given.

    >>> arms({"batch 4": 4}, ["LN"])
    (Arm(task='batch 4', model='LN', batch=4),)
    """
    return tuple(Arm(task, model, batch) for task, batch in tasks.items() for model in models)
