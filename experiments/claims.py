"""The claims of what normalization does, and BatchNorm beside LayerNorm, as they are told."""

import dataclasses

from experiments import click_through_rate as clicks
from experiments import (
    convolutional,
    covariate_shift,
    few_features,
    noise,
    order_embeddings,
    permutation_invariant,
    pixels,
    recurrences,
    scales,
    translation,
    unbalanced,
)
from experiments.characters import SHAKESPEARE
from experiments.harness.translation_pairs import BYTE_PAIRS, CHARACTERS, UNIGRAM, WORDS


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is said of a norm, and the figures for or against it.

    Attributes:
        text: what is said.
        study: which has the figures.
        score: their name.
        arms: (task, model) of each.
    """

    text: str
    study: str
    score: str
    arms: tuple[tuple[str, str], ...]


LARGE, SMALL = permutation_invariant.LARGE, permutation_invariant.SMALL
MNIST, GESTURES = convolutional.MNIST, convolutional.GESTURES

# The claims of what normalization does, as papers and documents have them.
CLAIMS = {
    1: Cell(
        "LayerNorm computes the same in training and inference; BatchNorm does not.",
        "scales",
        "gap",
        ((scales.MODES, "BN-LSTM"), (scales.MODES, "LN-LSTM")),
    ),
    2: Cell(
        "BatchNorm depends on the batch size and suffers at small ones; LayerNorm works at batch "
        "size 1.",
        "permutation_invariant",
        "epochs",
        ((SMALL, "BN"), (SMALL, "LN")),
    ),
    3: Cell(
        "Recurrent BatchNorm lacks statistics for test sequences longer than any in training; "
        "LayerNorm needs none.",
        "shakespeare",
        "beyond",
        tuple((SHAKESPEARE, model) for model in ("LSTM", "BN-LSTM", "LN-LSTM")),
    ),
    4: Cell(
        "Without normalization the summed input of a recurrence grows or shrinks over the steps, "
        "and gradients with it; LayerNorm holds them.",
        "recurrences",
        "gradients",
        tuple((recurrences.ORDINARY, model) for model in ("RNN", "LN-RNN", "LSTM", "LN-LSTM")),
    ),
    5: Cell(
        "BatchNorm speeds up the training of static networks more than LayerNorm; its noise "
        "regularises.",
        "convolutional",
        "epochs",
        ((MNIST, "BN"), (MNIST, "LN")),
    ),
    6: Cell(
        "Dividing by the deviation matters more than subtracting the mean.",
        "click_through_rate",
        "auc",
        tuple(
            (clicks.TASK, f"{norm}; {clicks.BOTH}")
            for norm in ("LN without affine", "variance only", "centred only")
        ),
    ),
    7: Cell(
        "Normalising embeddings helps click-through-rate models; LayerNorm and its variants are "
        "the most stable there.",
        "click_through_rate",
        "auc",
        (
            (clicks.TASK, "none"),
            *((clicks.TASK, f"{n}; {clicks.EMBEDDINGS}") for n in ("BN", "LN", "variance only")),
        ),
    ),
    8: Cell(
        "BatchNorm belongs before the activation.",
        "convolutional",
        "accuracy",
        ((MNIST, "BN"), (MNIST, f"BN{convolutional.AFTER}")),
    ),
    9: Cell(
        "BatchNorm erases differences of scale between features and keeps those between samples; "
        "LayerNorm the reverse.",
        "scales",
        "features",
        ((scales.SCALES, "BN"), (scales.SCALES, "LN")),
    ),
    10: Cell(
        "A very unbalanced binary task or a tiny batch makes BatchNorm's statistics misleading.",
        "unbalanced",
        "auc",
        ((unbalanced.RARE, "none"), (unbalanced.RARE, "BN"), (unbalanced.RARE, "LN")),
    ),
    11: Cell(
        "What normalization is said to be for: the inputs of a layer shift less while the layers "
        "before it learn; and BatchNorm stands for whitening.",
        "covariate_shift",
        "shift",
        tuple((covariate_shift.TASK, norm) for norm in ("none", "BN", "LN")),
    ),
    12: Cell(
        "A norm in a recurrence speeds up its training, and it ends better.",
        "order_embeddings",
        "epochs",
        tuple((order_embeddings.PAIRS, model) for model in ("GRU", "LN-GRU")),
    ),
    13: Cell(
        "A text is best read and written by subwords, and an exported model reads and writes it, "
        "token by token, as Keras does.",
        "translation",
        "bleu",
        tuple((task, translation.LN) for task in (CHARACTERS, WORDS, BYTE_PAIRS, UNIGRAM)),
    ),
    14: Cell(
        "LayerNorm of the inputs of an LSTM costs accuracy where there are few features: with one "
        "feature it keeps the sign alone.",
        "few_features",
        "accuracy",
        tuple(
            (few_features.name_of(few_features.WAVES, 1), model)
            for model in ("LSTM", few_features.LN, *few_features.REMEDIES)
        ),
    ),
}


@dataclasses.dataclass(frozen=True)
class Short:
    """What the answers on a claim come to.

    Attributes:
        of: the answers that it was written of, such as "5 yes, 1 no": others want other words.
        text: for a reader who reads no more.
    """

    of: str
    text: str


IN_SHORT = {
    1: Short(
        "4 yes",
        "With BatchNorm 6 digits of 100 get another answer in training than in inference; with "
        "LayerNorm none.",
    ),
    2: Short(
        "6 yes, 1 no",
        "At a batch of 4 BatchNorm needs three epochs more than LayerNorm, and ends worse. "
        "LayerNorm learns from batches of 1; on ratings no better than no norm does.",
    ),
    3: Short(
        "2 yes, 2 no",
        "Over 1,600 characters in place of 100 LayerNorm loses nothing, and BatchNorm less than a "
        "hundredth of a bit more. Addition and copying decide nothing.",
    ),
    4: Short(
        "17 yes, 7 no",
        "Sums grow in a plain recurrence of gain 2 alone, and LayerNorm holds them. Without a norm "
        "gradients change by 9 to 90 powers of ten. In an LSTM and a GRU LayerNorm lessens that, "
        "and does not hold them; in a plain recurrence of gain 1 or 2 it adds to it.",
    ),
    5: Short(
        "4 yes, 6 no",
        "With convolutions BatchNorm needs fewer epochs than LayerNorm, and for digits it ends "
        "better. Of gestures LayerNorm ends better than no norm; that it is faster is not shown. "
        "With dense layers BatchNorm ends no better than LayerNorm. Nor do noisier statistics, and "
        "with 1,000 digits they leave the gap between test and training as it is.",
    ),
    6: Short(
        "2 yes, 5 no",
        "Where embeddings are normalized, centring alone is better than dividing alone, on both "
        "data sets, and on Frappe LayerNorm is worse without centring. On hidden layers it is as "
        "good without.",
    ),
    7: Short(
        "7 no",
        "No norm of embeddings is known to help; dividing alone harms on Frappe. At the largest of "
        "the learning rates LayerNorm's kind holds no better than BatchNorm.",
    ),
    8: Short("1 no", "For digits it is no better there. The other data do not tell."),
    9: Short("2 yes", "Each erases the one kind of scale, and keeps the other."),
    10: Short(
        "1 yes, 4 no",
        "A rare class does not, alone or with batches of 8. Batches of 4 of even classes do: they "
        "cost BatchNorm three epochs.",
    ),
    11: Short(
        "2 yes, 1 no",
        "BatchNorm lessens the shift, and learns more than whitening does. LayerNorm adds to it.",
    ),
    12: Short(
        "19 yes, 4 no",
        "Yes for texts, permuted digits, the attentive reader and skip-thoughts. Order embeddings "
        "are learned faster, and to no end that is known to be better. No for handwriting. DRAW is "
        "not faster.",
    ),
    13: Short(
        "12 yes, 1 no",
        "Subwords beat characters; words beat unigram subwords. All exported files read and write "
        "as Keras does.",
    ),
    14: Short(
        "6 yes, 1 no",
        "With one feature LayerNormLSTM has 65 waves of 100 right, an LSTM without a norm 99. With "
        "a Dense layer before it, it has 99 right, and 11 gestures of 100 more. From three "
        "features on no cost is shown.",
    ),
}

# BatchNorm beside LayerNorm, as it is usually told.
BESIDE = {
    "statistics of": (
        Cell("the mini-batch, each feature", "scales", "features", (("scales", "BN"),)),
        Cell("one sample, all features", "scales", "samples", (("scales", "LN"),)),
    ),
    "batch size": (
        Cell(
            "matters; better when large",
            "permutation_invariant",
            "accuracy",
            ((LARGE, "BN"), (SMALL, "BN")),
        ),
        Cell(
            "does not matter; serves small ones",
            "permutation_invariant",
            "accuracy",
            ((LARGE, "LN"), (SMALL, "LN")),
        ),
    ),
    "used in": (
        Cell(
            "CNN, MLP, deep static networks",
            "convolutional",
            "accuracy",
            ((MNIST, "BN"), (MNIST, "LN")),
        ),
        Cell(
            "RNN, Transformer, sequences",
            "pixels",
            "accuracy",
            ((pixels.PERMUTED, "LN-LSTM"), (pixels.PERMUTED, "BN-LSTM")),
        ),
    ),
    "speeds training up": (
        Cell("well", "convolutional", "epochs", ((GESTURES, "none"), (GESTURES, "BN"))),
        Cell("less", "convolutional", "epochs", ((GESTURES, "none"), (GESTURES, "LN"))),
    ),
    "training and inference": (
        Cell("differ, need care", "scales", "gap", ((scales.MODES, "BN-LSTM"),)),
        Cell("the same", "scales", "gap", ((scales.MODES, "LN-LSTM"),)),
    ),
    "regularises": (
        Cell(
            "yes, by the batch's noise",
            "noise",
            "gap",
            ((noise.MORE, "BN"), (noise.MORE, noise.GROUPED)),
        ),
        Cell("less", "noise", "gap", ((noise.MORE, "none"), (noise.MORE, "LN"))),
    ),
}
