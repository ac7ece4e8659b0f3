"""Characters of a small text, from five seeds: Cooijmans et al. 2016, section 5.2: claims 3, 12."""

import dataclasses

from experiments import characters
from experiments.characters import LAYERS, SHAKESPEARE
from experiments.harness.study import Size, arms

STUDY = dataclasses.replace(
    characters.STUDY,
    name="shakespeare",
    title="Characters of Tiny Shakespeare",
    paper="Cooijmans et al. 2016, section 5.2, as above; they have no figure for this text.",
    otherwise="Smaller: a million characters for five, so that there are five seeds. A round is "
    "an epoch. All else is as above.",
    arms=arms({SHAKESPEARE: 64}, tuple(LAYERS)),
    questions=characters.questions(SHAKESPEARE),
    full=Size(None, 24_960, 60, patience=4, seeds=5, rates=(1e-3, 3e-3, 1e-2), trial=2),
    minutes=5.0,
    figures={},
)
