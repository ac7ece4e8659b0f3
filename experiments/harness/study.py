"""The declaration of a study: models, data, questions and the rules for their answers."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import matplotlib.axes
import numpy as np

# Inputs and targets by part: "training", "validation", "test". A study may add parts.
Parts = Mapping[str, tuple[Any, np.ndarray]]

Scores = dict[str, float]

# Scores by name. An array has one value for each test sample; its mean is the score.
SampleScores = Mapping[str, float | np.ndarray]


@dataclasses.dataclass(frozen=True)
class Arm:
    """A model on a task.

    Attributes:
        task: name of the task.
        model: name of the model.
        batch: batch size.
    """

    task: str
    model: str
    batch: int = 128


@dataclasses.dataclass(frozen=True)
class Run:
    """One training of an arm.

    Attributes:
        arm: the model and its task.
        rate: learning rate.
        seed: seed of all random numbers.
        trial: whether the run has only the first rounds, which choose the learning rate.
    """

    arm: Arm
    rate: float
    seed: int
    trial: bool = False

    @property
    def name(self) -> str:
        """Name of the run and of its checkpoint; a trial and its continuation share a name."""
        return f"{self.arm.task}, {self.arm.model}, rate {self.rate:g}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class Size:
    """The amount of training in a study.

    Attributes:
        samples: number of training samples; None for all.
        per_round: training samples between two validations.
        rounds: largest number of rounds.
        patience: number of rounds without a better validation score after which a run stops.
        seeds: number of seeds.
        rates: learning rates to choose from, the same for all arms.
        trial: number of rounds after which validation chooses the learning rate. None: it chooses
            after whole runs.
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
        """The seeds that run after the learning rate is chosen."""
        return range(1 if self.trial is None else 0, self.seeds)


@dataclasses.dataclass(frozen=True)
class Drawings:
    """Samples that a generative model draws after training with seed 0.

    Attributes:
        make: returns the samples of a model as nested lists of numbers or text, for the JSON file.
        draw: draws the samples into axes.
        caption: caption of the picture.
    """

    make: Callable[[keras.Model, Parts], list[Any]]
    draw: Callable[[matplotlib.axes.Axes, Any], None]
    caption: str


@dataclasses.dataclass(frozen=True)
class Training:
    """A study that trains each arm until validation stops improving.

    Attributes:
        load: returns the data from the task, the number of training samples (None for all) and the
            data folder.
        build: returns the uncompiled model of an arm.
        loss: a Keras loss, by name or as a function of targets and outputs.
        score: returns scores from a model's outputs and the targets. With one seed, it returns a
            score for every sample, to resample the test set.
        monitor: the score that says which round is best.
        maximize: whether a larger value of `monitor` is better.
        recalibrated: whether batch statistics are recomputed before each validation. A recurrence
            needs it.
        compiled: whether XLA compiles the training step. It halves the time of a network without
            a recurrence; a recurrence compiles itself.
        in_order: whether training keeps the order of the samples.
        measure: returns further scores of the best round's model.
        every: number of rounds between two calls of `measure` during training; 0 for none.
        level: a value of `monitor`, for all tasks or by task. The score `epochs` is the time to
            reach this value, interpolated linearly between two validations.
        learned: a value of `monitor` that a model must reach to count as trained. Patience does
            not stop a run before, because a plateau would stop it. A run that never reaches the
            value decides no question.
        chosen: a score to minimize that chooses the learning rate instead of `monitor`. It is for
            plateaus, where `monitor` is noise.
        drawings: how the models draw samples; None for other models.
    """

    load: Callable[[str, int | None, pathlib.Path | None], Parts]
    build: Callable[[Arm, Parts], keras.Model]
    loss: str | Callable[..., Any]
    score: Callable[[np.ndarray, np.ndarray], SampleScores]
    monitor: str
    maximize: bool = True
    recalibrated: bool = False
    compiled: bool = False
    in_order: bool = False
    measure: Callable[[keras.Model, Parts], SampleScores] | None = None
    every: int = 0
    level: float | Mapping[str, float] | None = None
    learned: float | None = None
    chosen: str | None = None
    drawings: Drawings | None = None

    def level_of(self, task: str) -> float:
        """The level of a task. The study must have one."""
        level = self.level[task] if isinstance(self.level, Mapping) else self.level
        assert level is not None
        return level


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A study that measures each arm without `Trainer`, from an arm, a seed and the data folder."""

    measure: Callable[[Arm, int, pathlib.Path | None], Scores]


@dataclasses.dataclass(frozen=True)
class Question:
    """A statement about a claim, and the effect that decides it.

    The effect is a sum of scores minus another sum, computed for each seed. Runs with equal seeds
    see equal data in equal order. The answer is "yes" if the whole 95 % interval of the mean effect
    is above `threshold`, and "no" if the whole interval is below. With one seed, the interval
    comes from resampling the test samples.

    The question stays undecided if a run did not reach the level, or did not learn. It also stays
    undecided if the limit on rounds stopped a run early, unless the score is `epochs`.

    Attributes:
        claim: number of the claim in `claims.py`.
        statement: the statement that "yes" confirms.
        score: name of a test score.
        plus: arms (task, model) to add.
        minus: arms (task, model) to subtract.
        threshold: the smallest effect that counts, in `unit`.
        scale: factor from the score to `unit`.
        unit: unit on the page.
        digits: number of digits after the point.
        largest_rate: whether to compare at the largest learning rate instead of the chosen one.
    """

    claim: int
    statement: str
    score: str
    plus: tuple[tuple[str, str], ...] = ()
    minus: tuple[tuple[str, str], ...] = ()
    threshold: float = 0.0
    scale: float = 1.0
    unit: str = ""
    digits: int = 2
    largest_rate: bool = False


@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve of a run: offset + factor * score.

    Attributes:
        score: name of a validation score, or of a score measured during training.
        label: label of the vertical axis.
        factor: factor from the score to the unit of the label.
        offset: value to add.
        log: whether the axis is logarithmic when all values are positive.
    """

    score: str
    label: str
    factor: float = 1.0
    offset: float = 0.0
    log: bool = False


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """A figure of Ba et al. 2016 that a study draws again.

    Attributes:
        number: its number in the paper.
        paper: description of the paper's curves.
        here: description of the study's curves.
        x_axis: "updates" or "epochs".
        curves: the curves to draw.
    """

    number: int
    paper: str
    here: str
    x_axis: str
    curves: tuple[Curve, ...]


@dataclasses.dataclass(frozen=True)
class Study:
    """A study: one file of `experiments`, one results file and one page.

    Attributes:
        name: name of the file, the results and the page.
        title: title of the page.
        question: the question of the study, in one or two sentences.
        paper: the experiment of the paper, and its result.
        differences: the differences from the paper. The first sentence says what is smaller.
        revisions: the changes that were made after results had been seen.
        work: the training or measurement of an arm.
        arms: the models and tasks to compare.
        questions: the statements to decide.
        full: size of the study.
        smoke: size in the tests.
        scores: heading, factor and number of digits of each score on the page.
        in_paper: the paper's values of a score, by (task, score) and model.
        figure: the figure of Ba et al. 2016 to draw again; None for no figure.
    """

    name: str
    title: str
    question: str
    paper: str
    differences: str
    work: Training | Measurement
    arms: tuple[Arm, ...]
    questions: tuple[Question, ...]
    full: Size
    smoke: Size
    scores: Mapping[str, tuple[str, float, int]]
    revisions: str = ""
    in_paper: Mapping[tuple[str, str], Mapping[str, str]] = dataclasses.field(default_factory=dict)
    figure: PaperFigure | None = None

    def arm(self, task: str, model: str) -> Arm:
        """Return the arm with a task and a model."""
        return next(a for a in self.arms if (a.task, a.model) == (task, model))

    @property
    def at_largest_rate(self) -> set[tuple[str, str]]:
        """The arms that a question compares at the largest learning rate."""
        return {arm for q in self.questions if q.largest_rate for arm in (*q.plus, *q.minus)}


def arms(tasks: Mapping[str, int], models: Sequence[str]) -> tuple[Arm, ...]:
    """Combine every model with every task.

    Args:
        tasks: batch size by task.
        models: names of the models.

    >>> arms({"batch 4": 4}, ["LN"])
    (Arm(task='batch 4', model='LN', batch=4),)
    """
    return tuple(Arm(task, model, batch) for task, batch in tasks.items() for model in models)
