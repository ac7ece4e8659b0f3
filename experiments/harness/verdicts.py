"""The answers to a study's questions, by the rule in `Question`."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.stats

from experiments.harness import sample_scores
from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS, has_learned, score_of
from experiments.harness.runs import chosen_rate, first_runs
from experiments.harness.study import Arm, Question, Run, Size, Study

CONFIDENCE = 0.95
MAX_SEEDS = 1000  # the page says "more than" beyond this number
# The limits that stop a run before validation does: the word in the results, the text on the page.
LIMITS = {"rounds": "the limit on rounds", "hour": "the limit of one hour on two cores"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The answer to a question.

    Attributes:
        question: the question.
        holds: True for yes, False for no, None for not decided.
        mean: mean effect over the seeds, in the question's unit.
        half: half the width of the 95 % interval; infinite for one seed without sample scores.
        seeds: number of seeds with results.
        samples: number of test samples behind the interval; 0 if it comes from the seeds.
        missing: what would decide the question; empty if it is decided.
        runs: number of runs behind the verdict.
        cut: number of runs that a limit stopped before validation did.
    """

    question: Question
    holds: bool | None
    mean: float
    half: float
    seeds: int
    samples: int = 0
    missing: str = ""
    runs: int = 0
    cut: int = 0

    @property
    def answer(self) -> str:
        """The answer: yes, no or not decided."""
        return "not decided" if self.holds is None else "yes" if self.holds else "no"

    @property
    def detailed_answer(self) -> str:
        """The answer; a "no" also says if the effect is small or has the opposite sign."""
        if self.holds is not False:
            return self.answer
        threshold = self.question.threshold
        if threshold <= 0 or not (self.question.plus and self.question.minus):
            return "no"
        if self.mean + self.half < -threshold:
            return "no, the opposite"
        return "no, smaller" if self.mean - self.half > 0 else "no"

    @property
    def effect(self) -> str:
        """The mean effect with its interval and unit; empty if there are no runs."""
        if not self.seeds:
            return ""
        q = self.question
        half = f" ± {self.half:.{q.digits}f}" if math.isfinite(self.half) else ""
        mean = self.mean if q.plus else -self.mean
        mean = round(mean, q.digits) + 0.0  # no -0
        return f"{mean:.{q.digits}f}{half} {q.unit}".rstrip()

    @property
    def threshold(self) -> str:
        """The condition for "yes", such as "> 0.1"."""
        q = self.question
        return f"> {q.threshold:g}" if q.plus else f"< {-q.threshold:g}"

    @property
    def notes(self) -> str:
        """The number of runs that a limit stopped, and what would decide an open question."""
        cut = f"{self.cut} of {self.runs} runs stopped by a limit" if self.cut else ""
        return "; ".join(filter(None, (cut, self.missing)))


def decide(study: Study, size: Size, results: ResultsFile, question: Question) -> Verdict:
    """Answer a question from the finished runs."""
    verdict = _compare_interval(study, size, results, question)
    if size.rounds <= 1:  # no validation decides when such a run ends
        return verdict
    runs = {
        arm: [
            entry
            for seed in range(size.seeds)
            if (entry := _entry(study, arm, seed, size, results, question))
        ]
        for arm in (study.arm(*names) for names in (*question.plus, *question.minus))
    }
    every = [entry for entries in runs.values() for entry in entries]
    cut = sum(entry.get("ended") in LIMITS for entry in every)
    verdict = dataclasses.replace(verdict, runs=len(every), cut=cut)
    if len(every) < size.seeds * len(runs):
        return verdict
    if behind := [entry for entry in every if not _reached(study, question, entry)]:
        verb = "reached the level" if question.score == EPOCHS else "learned"
        counts = ", ".join(
            f"{arm.model} {verb} in {sum(e not in behind for e in of_arm)} of {len(of_arm)} runs"
            for arm, of_arm in runs.items()
        )
        missing = f"{counts}: other learning rates or longer runs would decide"
        return Verdict(question, None, math.nan, math.inf, 0, missing=missing)
    short = sum(entry.get("ended") == "rounds" for entry in every)
    if question.score != EPOCHS and short:
        missing = f"{short} longer run{'s' * (short > 1)} would decide"
        missing = "; ".join(filter(None, (missing, verdict.missing)))
        return dataclasses.replace(verdict, holds=None, missing=missing)
    return verdict


def _reached(study: Study, question: Question, entry: Entry) -> bool:
    """Whether a run reached the level, for `EPOCHS`; else whether it learned."""
    score = score_of(study.work, entry, question.score)
    if question.score == EPOCHS:
        return score is not None
    return has_learned(study.work, entry) and (score is None or math.isfinite(score))


def _compare_interval(
    study: Study, size: Size, results: ResultsFile, question: Question
) -> Verdict:
    """Compare the interval of the effect with the threshold.

    If the interval contains the threshold, the verdict says how many seeds would decide. It assumes
    that mean and deviation stay the same.
    """
    values = effects(study, size, results, question)
    seeds = len(values)
    if resampled := values.ndim > 1:
        (values,) = values
    samples = len(values) if resampled else 0
    mean, half = (
        sample_scores.interval(values, CONFIDENCE) if resampled else student_interval(values)
    )
    if seeds < size.seeds:
        missing = f"{size.seeds - seeds} of {size.seeds} seeds are missing and would decide"
        return Verdict(question, None, mean, half, seeds, samples, missing)
    threshold = question.threshold
    if abs(mean - threshold) > half or (half == 0 and mean != threshold):
        return Verdict(question, mean > threshold, mean, half, seeds, samples)
    count = math.ceil(values_needed(values, threshold) / (len(values) if resampled else 1))
    needed = f"about {count:,}" if count <= MAX_SEEDS else f"more than {MAX_SEEDS:,}"
    return Verdict(question, None, mean, half, seeds, samples, f"{needed} seeds would decide")


def effects(study: Study, size: Size, results: ResultsFile, question: Question) -> np.ndarray:
    """Return the effect of every seed whose runs have all finished.

    For one seed with sample scores, the shape is (1, samples).
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
        return sample_scores.unpack(entry["samples"][question.score])
    return score_of(study.work, entry, question.score)


def _entry(
    study: Study, arm: Arm, seed: int, size: Size, results: ResultsFile, question: Question
) -> Entry | None:
    """Return the run of a seed that a question compares; None if it or a first run is missing."""
    if not all(results.find(run) for run in first_runs(arm, size)):
        return None
    largest = question.largest_rate
    rate = max(size.rates) if largest else chosen_rate(study, arm, size, results)
    return results.find(Run(arm, rate, seed))


def student_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval by Student's t.

    >>> mean, half = student_interval([1.0, 2.0, 3.0])
    >>> f"{mean:.1f} {half:.2f}"
    '2.0 2.48'
    """
    if len(values) < 2:
        return (float(values[0]) if len(values) else math.nan), math.inf
    error = float(scipy.stats.sem(values))
    return float(np.mean(values)), error * _quantile(len(values))


def _quantile(count: int) -> float:
    return float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))


def values_needed(values: np.ndarray, threshold: float) -> int:
    """Return how many values of this mean and deviation decide; at most 10 million."""
    deviation, distance = float(np.std(values, ddof=1)), abs(float(np.mean(values)) - threshold)
    count = len(values)
    while count < 10_000_000 and _quantile(count) * deviation / math.sqrt(count) >= distance:
        count = math.ceil(count * 1.1)
    return count
