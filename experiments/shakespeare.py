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
    changed="At three times the largest rate, which was tried later, the first two rounds end at "
    "2.62 bits of validation for the LSTM (2.69 at the rate chosen), 2.40 for the LN-LSTM (2.37) "
    "and 2.31 for the BN-LSTM (2.35): the two others may gain a little.",
    arms=arms({SHAKESPEARE: 64}, tuple(LAYERS)),
    questions=characters.questions(SHAKESPEARE),
    full=dataclasses.replace(characters.STUDY.full, rounds=60, seeds=5),
    minutes=5.0,
    figures={},
)
