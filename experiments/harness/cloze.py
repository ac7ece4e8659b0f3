"""Cloze questions about plays by the recipe of Hermann et al. 2015.

A passage is a few consecutive speeches. The question is the next speech, with one name of the
passage replaced by a blank. Names are replaced by numbers.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

import numpy as np

BLANK, ENTITY = "@placeholder", "@entity"


@dataclasses.dataclass(frozen=True)
class Cloze:
    """A cloze question.

    Attributes:
        passage: tokens of the passage, with names as @entityN.
        question: tokens of the question, with @placeholder for the answer.
        answer: number N of the answer.
    """

    passage: tuple[str, ...]
    question: tuple[str, ...]
    answer: int


def speeches(play: str, words: int) -> list[tuple[str, ...]]:
    """Split a play into speeches: the speaker, a colon, and the first words.

    The name of a speaker is the token "@NAME" in every speech. Other speeches can mention only
    speakers whose names are in capitals ("First Citizen" is not).

    Args:
        play: text of the play.
        words: number of words of a speech to keep.
    """
    found = re.findall(r"(?:^|\n\n)([^\n:]+):\n(.+?)(?=\n\n|$)", play.strip(), re.DOTALL)
    names = {who.title(): _name(who) for who, _ in found if who.isupper()}
    token = "|".join((*sorted(map(re.escape, names), key=len, reverse=True), r"[\w']+", r"[^\w\s]"))
    return [
        (_name(who), ":", *(names.get(t, t.lower()) for t in re.findall(token, text)[:words]))
        for who, text in found
    ]


def _name(who: str) -> str:
    return "@" + who.strip().replace(" ", "_")


def clozes(
    spoken: Sequence[tuple[str, ...]], before: int, entities: int, rng: np.random.Generator
) -> Iterator[Cloze]:
    """Yield all questions about speeches, with new random numbers for the names of each question.

    Args:
        spoken: the speeches, from `speeches`.
        before: number of speeches in a passage.
        entities: number of numbers; a question with more names is skipped.
        rng: random number generator.
    """
    for place in range(before, len(spoken)):
        passage = [token for speech in spoken[place - before : place] for token in speech]
        question = spoken[place]
        names = sorted({token for token in (*passage, *question) if token[0] == "@"})
        for missing in [name for name in names if name in question and name in passage]:
            numbers = rng.permutation(entities)[: len(names)].tolist()
            if len(numbers) < len(names):
                continue
            hidden = {name: f"{ENTITY}{n}" for name, n in zip(names, numbers, strict=True)}
            blanked = [BLANK if token == missing else token for token in question]
            yield Cloze(
                tuple(hidden.get(token, token) for token in passage),
                tuple(hidden.get(token, token) for token in blanked),
                numbers[names.index(missing)],
            )
