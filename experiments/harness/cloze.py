"""Questions by the cloze recipe: a name is missing, and names are numbers (Hermann et al. 2015).

Files of the CNN corpus have them; of plays they are made by the same recipe. Of a play, a passage
is a few speeches on end, and the question is the one after them, in which one name of the passage,
the speaker's or one that is spoken of, is a blank.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

import numpy as np

BLANK, ENTITY = "@placeholder", "@entity"


@dataclasses.dataclass(frozen=True)
class Cloze:
    """A question.

    Attributes:
        passage: its tokens, names as @entityN.
        question: the same, and a @placeholder.
        answer: the N that it stands for.
    """

    passage: tuple[str, ...]
    question: tuple[str, ...]
    answer: int


def speeches(play: str, words: int) -> list[tuple[str, ...]]:
    """Who speaks, a colon, and the first words; the names of speakers are tokens "@NAME" anywhere.

    Speakers in capitals are names, which others speak of; others are not ("First Citizen").
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
    """All questions about speeches; their names are numbers, drawn anew for each question.

    Args:
        spoken: of `speeches`.
        before: speeches of a passage.
        entities: numbers that there are; a question with more names is left out.
        rng: draws them.
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
            asked = [BLANK if token == missing else token for token in question]
            yield Cloze(
                tuple(hidden.get(token, token) for token in passage),
                tuple(hidden.get(token, token) for token in asked),
                numbers[names.index(missing)],
            )
