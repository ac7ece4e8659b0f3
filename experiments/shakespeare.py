"""Character prediction on a small text with five seeds: claims 3, 12, 13 and 16."""

import dataclasses

from experiments import characters
from experiments.characters import JOINT, LENGTH, MODELS, SHAKESPEARE
from experiments.harness.study import Question, arms

STUDY = dataclasses.replace(
    characters.STUDY,
    name="shakespeare",
    title="Characters of Tiny Shakespeare",
    question="Do the answers on the Penn Treebank hold for another text, with five seeds?",
    paper="Cooijmans et al. 2016, section 5.2, as for the [Penn Treebank](characters.md). The "
    "paper has no result for this text.",
    differences="Smaller: one million characters instead of five, so that five seeds are "
    "possible. A round is one epoch. Everything else is as for the [Penn "
    "Treebank](characters.md).",
    revisions="Three times the largest rate was tried later. Its first two rounds end at 2.62 "
    "bits in validation for the LSTM (2.69 at the chosen rate), 2.40 for the LN-LSTM (2.37) and "
    "2.31 for the BN-LSTM (2.35). So the LSTM and the BN-LSTM might gain a little. The "
    "joint form was added later, with three of the five seeds.",
    arms=arms({SHAKESPEARE: 64}, (*MODELS, JOINT)),
    questions=(
        *characters.questions(SHAKESPEARE),
        Question(
            16,
            f"the LN-LSTM predicts no worse in the joint form ({SHAKESPEARE})",
            f"bits_{LENGTH}",
            ((SHAKESPEARE, "LN-LSTM"),),
            ((SHAKESPEARE, JOINT),),
            threshold=-0.01,
            unit="bits per character",
            digits=3,
        ),
    ),
    full=dataclasses.replace(characters.STUDY.full, rounds=60, seeds=5),
    in_paper={},
)
