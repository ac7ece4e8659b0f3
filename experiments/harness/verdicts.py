"""What the runs say of a question, by the rule that `Question` states."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.stats

from experiments.harness import sample_scores
from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS, has_learned, score_of
from experiments.harness.runs import chosen_rate, first_runs
from experiments.harness.study import Arm, Question, Run, Size, Study

CONFIDENCE = 0.95
MOST = 1000  # seeds that are worth a number
# What ends a run before its validation stops improving: the entry's word, and the page's.
BOUNDS = {"rounds": "the bound on rounds", "hour": "an hour of two cores"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """An answer.

    Attributes:
        question: what was asked.
        holds: whether it is so; None where that is not decided.
        mean: of the figure over the seeds, in the question's unit.
        half: half of its interval; infinite for one seed without samples.
        seeds: how many it has.
        samples: of the test that the interval comes from; 0 where it comes from the seeds.
        missing: what would decide, where it is not decided.
        needed: how many seeds would, where no run is missing.
        runs: how many are behind it.
        cut: how many of them a bound ended, before validation stopped improving.
        longer: those that must be longer to decide it, by task, model, rate and seed.
    """

    question: Question
    holds: bool | None
    mean: float
    half: float
    seeds: int
    samples: int = 0
    missing: str = ""
    needed: int = 0
    runs: int = 0
    cut: int = 0
    longer: frozenset[tuple[str, str, float, int]] = frozenset()

    @property
    def answer(self) -> str:
        """In a word."""
        return "not decided" if self.holds is None else "yes" if self.holds else "no"

    @property
    def word(self) -> str:
        """For the page; where a difference was asked for, "no" says what there is of it."""
        if self.holds is not False:
            return self.answer
        bound = self.question.above
        if bound <= 0 or not (self.question.plus and self.question.minus):
            return "no"
        if self.mean + self.half < -bound:
            return "no, the other way"
        return "no, by less" if self.mean - self.half > 0 else "no"

    @property
    def figure(self) -> str:
        """The figure, with what it is held against."""
        if not self.seeds:
            return ""
        q = self.question
        seeds = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"
        half = f" ± {self.half:.{q.digits}f}" if math.isfinite(self.half) else ""
        mean, against = self.mean, f"against {q.above:g}"
        if not q.plus:  # it is "yes" where what is taken away is small enough
            mean, against = -mean, f"at most {-q.above:g}"
        mean = round(mean, q.digits) + 0.0  # no -0
        drawn = f", resampling {self.samples:,} parts of the test set" if self.samples else ""
        cut = f", {self.cut} of {self.runs} runs cut off" if self.cut else ""
        return f"{mean:.{q.digits}f}{half} {q.unit}, {against}; {seeds}{drawn}{cut}"


def decide(study: Study, size: Size, results: ResultsFile, question: Question) -> Verdict:
    """The verdict on a question, with the runs behind it."""
    found = _judged(study, size, results, question)
    if size.rounds <= 1:  # nothing waits for validation
        return found
    runs = {
        arm: [
            entry
            for seed in range(size.seeds)
            if (entry := _entry(study, arm, seed, size, results, question))
        ]
        for arm in (study.arm(*names) for names in (*question.plus, *question.minus))
    }
    every = [entry for entries in runs.values() for entry in entries]
    cut = sum(entry.get("ended") in BOUNDS for entry in every)
    found = dataclasses.replace(found, runs=len(every), cut=cut)
    if found.seeds < size.seeds and found.missing:
        return found
    if behind := [entry for entry in every if not _there(study, question, entry)]:
        what = "got there" if question.score == EPOCHS else "learned"
        counts = [
            f"{arm.model} {what} in {sum(e not in behind for e in of_arm)} of {len(of_arm)} runs"
            for arm, of_arm in runs.items()
        ]
        # Where validation had stopped improving, time alone would not do.
        cut_off = all(entry.get("ended") in BOUNDS for entry in behind)
        other = longer_runs(len(behind), "" if cut_off else "of more patience ")
        missing = f"{', '.join(counts)}: other learning rates, or {other}"
        return Verdict(question, None, math.nan, math.inf, 0, 0, missing, longer=_names(behind))
    short = [entry for entry in every if entry.get("ended") == "rounds"]
    if question.score != EPOCHS and short:
        missing = longer_runs(len(short)) + (
            f"; as they are, {found.missing}" if found.missing else ""
        )
        return dataclasses.replace(found, holds=None, missing=missing, longer=_names(short))
    return found


def _there(study: Study, question: Question, entry: Entry) -> bool:
    """Whether a run got to what a question is about."""
    score = score_of(study.work, entry, question.score)
    if question.score == EPOCHS:
        return score is not None
    return has_learned(study.work, entry) and (score is None or math.isfinite(score))


def _names(entries: Sequence[Entry]) -> frozenset[tuple[str, str, float, int]]:
    return frozenset((e["task"], e["model"], e["rate"], e["seed"]) for e in entries)


def longer_runs(count: int, which: str = "") -> str:
    """What would decide, and what it takes at most.

    >>> longer_runs(12)
    '12 longer runs would decide, in at most an hour of two cores each'
    """
    runs = "1 longer run" if count == 1 else f"{count} longer runs"
    return f"{runs} {which}would decide, in at most an hour of two cores{' each' * (count > 1)}"


def _judged(study: Study, size: Size, results: ResultsFile, question: Question) -> Verdict:
    """The verdict by the figures alone.

    Where runs are missing it is not decided, and what is missing is their number, and how long they
    take; where the interval holds `above`, the number of seeds with which it would not, if mean
    and deviation stay as they are. Of one seed it is the number of times that the test set is too
    small.
    """
    values = differences(study, size, results, question)
    seeds = len(values)
    if resampled := values.ndim > 1:
        (values,) = values
    drawn = len(values) if resampled else 0
    mean, half = sample_scores.interval(values, CONFIDENCE) if resampled else interval(values)
    if seeds < size.seeds:
        missing = hours_left(study, size, results, question)
        return Verdict(question, None, mean, half, seeds, drawn, missing)
    if abs(mean - question.above) > half or (half == 0 and mean != question.above):
        return Verdict(question, mean > question.above, mean, half, seeds, drawn)
    times = math.ceil(needed(values, question.above) / (len(values) if resampled else 1))
    missing = f"some {times:,} seeds would decide, at even odds"
    if times > MOST:
        missing = f"more than {MOST:,} seeds would decide: the mean is next to the bound"
    elif resampled:
        more = (times - 1) * len({*question.plus, *question.minus})
        missing = f"some {times:,} seeds would decide, if each tells as much as a new test set, in "
        missing += time(more * seconds_of_run(study, results.entries))
    return Verdict(question, None, mean, half, seeds, drawn, missing, times)


def differences(study: Study, size: Size, results: ResultsFile, question: Question) -> np.ndarray:
    """The figure of every seed for which all runs have ended.

    Where there is one seed whose test samples were kept, it is an array (1, samples).
    """
    found = []
    for seed in range(size.seeds):
        plus, minus = (
            [_score(study, study.arm(*arm), seed, size, results, question) for arm in side]
            for side in (question.plus, question.minus)
        )
        if not any(score is None for score in (*plus, *minus)):
            found.append(sum(s for s in plus if s is not None))
            found[-1] -= sum(s for s in minus if s is not None)
    return question.scale * np.array(found, "float64")


def _score(
    study: Study, arm: Arm, seed: int, size: Size, results: ResultsFile, question: Question
) -> float | np.ndarray | None:
    entry = _entry(study, arm, seed, size, results, question)
    if entry is None:
        return None
    if question.score in entry.get("samples", ()):
        return sample_scores.unpacked(entry["samples"][question.score])
    return score_of(study.work, entry, question.score)


def _entry(
    study: Study, arm: Arm, seed: int, size: Size, results: ResultsFile, question: Question
) -> Entry | None:
    """The run of a seed that a question looks at; None where it is missing, or its rate is open."""
    if not all(results.latest(run) for run in first_runs(arm, size)):
        return None
    return results.latest(Run(arm, _rate(study, arm, size, results, question), seed))


def _rate(study: Study, arm: Arm, size: Size, results: ResultsFile, question: Question) -> float:
    return max(size.rates) if question.largest_rate else chosen_rate(study, arm, size, results)


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean, and half of its 95 % interval by Student's t.

    >>> mean, half = interval([1.0, 2.0, 3.0])
    >>> f"{mean:.1f} {half:.2f}"
    '2.0 2.48'
    """
    if len(values) < 2:
        return (float(values[0]) if len(values) else math.nan), math.inf
    error = float(scipy.stats.sem(values))
    return float(np.mean(values)), error * _quantile(len(values))


def _quantile(count: int) -> float:
    return float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))


def needed(values: np.ndarray, above: float) -> int:
    """How many values of this mean and deviation (at most 10 million) decide against `above`."""
    deviation, distance = float(np.std(values, ddof=1)), abs(float(np.mean(values)) - above)
    count = len(values)
    while count < 10_000_000 and _quantile(count) * deviation / math.sqrt(count) >= distance:
        count = math.ceil(count * 1.1)
    return count


def hours_left(study: Study, size: Size, results: ResultsFile, question: Question) -> str:
    """How long the runs take that a question lacks; "" if it lacks none.

    A run takes as long as those of the study that have ended, or as the study says.
    """
    runs: list[Run] = []
    for arm in (study.arm(*names) for names in (*question.plus, *question.minus)):
        rate = _rate(study, arm, size, results, question)
        runs += [*first_runs(arm, size), *(Run(arm, rate, seed) for seed in size.later_seeds)]
    count = sum(results.latest(run) is None for run in runs)
    said = "1 run is missing" if count == 1 else f"{count} runs are missing"
    return f"{said}, {time(seconds_left(study, runs, results))}" if count else ""


def seconds_left(study: Study, runs: Iterable[Run], results: ResultsFile) -> float:
    """What those of the runs take that have not ended."""
    lacking = [run for run in runs if not results.latest(run)]
    return sum(seconds_of_run(study, results.entries, run.trial) for run in lacking)


def seconds_of_run(study: Study, entries: Sequence[Entry], trial: bool = False) -> float:
    """The mean of the runs, or trials, that there are; else what was timed."""
    found = [e["seconds"] for e in entries if e.get("trial", False) == trial]
    if found:
        return float(np.mean(found))
    share = (study.full.trial or 0) / study.full.rounds if trial else 1.0
    return 60 * study.minutes * share


def time(seconds: float) -> str:
    """A span for a person.

    >>> time(30), time(600), time(9000)
    ('1 minute', '10 minutes', '2.5 hours')
    """
    if seconds > 5400:
        return f"{seconds / 3600:.1f} hours"
    minutes = max(math.ceil(seconds / 60), 1)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
