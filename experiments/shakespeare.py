"""Characters of a small text, five seeds: Cooijmans et al. 2016, section 5.2: claims 3, 12, 13."""

import dataclasses

from experiments import characters
from experiments.characters import LAYERS, SHAKESPEARE
from experiments.harness.study import arms

STUDY = dataclasses.replace(
    characters.STUDY,
    name="shakespeare",
    title="Characters of Tiny Shakespeare",
    paper="Cooijmans et al. 2016, section 5.2, as above; they have no figure for this text.",
    otherwise="Smaller: a million characters for five, so that there are five seeds. A round is "
    "an epoch. All else is as above.",
    arms=arms({SHAKESPEARE: 64}, tuple(LAYERS)),
    questions=characters.questions(SHAKESPEARE),
    full=dataclasses.replace(characters.STUDY.full, rounds=60, seeds=5),
    minutes=5.0,
    figures={},
)
