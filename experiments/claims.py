"""The claims about normalization, and the findings that docs/experiments/index.md shows."""

import dataclasses

# Claims 1 to 10 are from papers and documents, and 11 to 17 from this project.
CLAIMS = {
    1: "LayerNorm computes the same in training and inference; BatchNorm does not",
    2: "BatchNorm suffers at small batch sizes; LayerNorm works at batch size 1",
    3: "Recurrent BatchNorm lacks statistics for longer test sequences; LayerNorm needs none",
    4: "LayerNorm keeps the summed inputs and gradients of a recurrence stable",
    5: "BatchNorm speeds up feedforward networks more than LayerNorm; its noise regularizes",
    6: "Dividing by the deviation matters more than subtracting the mean",
    7: "Norms of embeddings help click-through-rate models; LayerNorm is the most stable",
    8: "BatchNorm belongs before the activation",
    9: "BatchNorm removes scale differences between features; LayerNorm between samples",
    10: "A rare class or a tiny batch misleads BatchNorm's statistics",
    11: "Norms reduce covariate shift; BatchNorm replaces whitening",
    12: "A norm in a recurrence trains faster and ends better",
    13: "Subwords are the best tokens; exported models compute as Keras does",
    14: "LayerNorm of an LSTM's inputs loses accuracy with few features",
    15: "A converted LSTM keeps its accuracy and ends better",
    16: "A norm of W x + U h is as good as norms of W x and of U h",
    17: "Recurrent BatchNorm loses accuracy on sequences of unequal lengths",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A question of a reader, answered by a verdict of a study.

    Attributes:
        question: the question.
        study: name of the study.
        statement: text that occurs in one statement of the study.
    """

    question: str
    study: str
    statement: str


@dataclasses.dataclass(frozen=True)
class Topic:
    """A group of findings.

    Attributes:
        title: the heading.
        answers: the number of each answer among the findings. A test fails if new results change
            it, because the conclusion may then be wrong.
        conclusion: one to three sentences about the findings.
        findings: the findings.
    """

    title: str
    answers: str
    conclusion: str
    findings: tuple[Finding, ...]


TOPICS = (
    Topic(
        "Recurrent layers: speed and quality",
        "7 yes, 3 no",
        "Use LayerNorm in an LSTM or GRU for text. BatchNorm is as good for characters and better "
        "for permuted pixels. LayerNorm did not help handwriting or DRAW. Converting a trained "
        "LSTM did not clearly help.",
        (
            Finding(
                "Does LayerNorm predict characters better than no norm?",
                "shakespeare",
                "LayerNorm predicts",
            ),
            Finding(
                "Does BatchNorm predict characters better?", "shakespeare", "BatchNorm predicts"
            ),
            Finding("Does LayerNorm translate better?", "translation", "LN-LSTM is better"),
            Finding(
                "Does LayerNorm answer questions better?",
                "attentive_reader",
                "the LN-LSTM ends better than the LSTM",
            ),
            Finding("Does LayerNorm train skip-thoughts faster?", "skip_thoughts", "fewer epochs"),
            Finding(
                "Does LayerNorm classify permuted pixels better?",
                "pixels",
                "LayerNorm is better than no norm (permuted",
            ),
            Finding(
                "Does BatchNorm classify permuted pixels better?",
                "pixels",
                "BatchNorm is better than no norm (permuted",
            ),
            Finding("Does LayerNorm speed up handwriting?", "handwriting", "fewer updates"),
            Finding("Does LayerNorm speed up DRAW?", "draw", "fewer epochs"),
            Finding(
                "Does conversion match training anew?",
                "conversion",
                "epochs in all, the LN-LSTM is as good as one trained anew (TREC",
            ),
        ),
    ),
    Topic(
        "Recurrent layers: stability, length and features",
        "4 yes, 2 no",
        "LayerNorm reduces, but does not remove, the growth of gradients. If amplitude matters, "
        "take a joint form. With few features, put a Dense layer first.",
        (
            Finding(
                "Do an LSTM's gradients change less with LayerNorm?",
                "recurrences",
                "gradients of an LSTM (gain 1)",
            ),
            Finding(
                "Does LayerNorm keep an LSTM's gradients stable?",
                "recurrences",
                "gradients of an LSTM stable",
            ),
            Finding(
                "Does BatchNorm lose more on longer texts?", "shakespeare", "BatchNorm loses more"
            ),
            Finding(
                "Does LayerNorm lose accuracy with one feature?",
                "few_features",
                "worse than no norm (waves, 1",
            ),
            Finding(
                "Does a Dense layer before LayerNorm restore accuracy?",
                "few_features",
                "after a Dense layer (waves, 1",
            ),
            Finding(
                "Does the joint form keep the amplitude?",
                "few_features",
                "joint form ends better than LayerNormLSTM (amp",
            ),
        ),
    ),
    Topic(
        "Small batches and rare classes",
        "4 yes, 2 no",
        "Use LayerNorm at batch size 4 or less. A rare class is no reason against BatchNorm.",
        (
            Finding(
                "At batch 4, does BatchNorm end worse than LayerNorm?",
                "permutation_invariant",
                "ends worse",
            ),
            Finding(
                "At batch 4, does BatchNorm need more epochs?",
                "permutation_invariant",
                "needs more epochs",
            ),
            Finding("Does LayerNorm learn at batch size 1?", "online", "batch size 1"),
            Finding(
                "Does LayerNorm beat no norm at batch size 1?",
                "online_ratings",
                "better than no norm",
            ),
            Finding("Does a rare class cost BatchNorm more?", "unbalanced", "(batch 128)"),
            Finding(
                "Do BatchNorm's predictions differ in training mode?",
                "pixels",
                "predicts other classes",
            ),
        ),
    ),
    Topic(
        "Convolutional and dense networks",
        "3 yes, 3 no",
        "Use BatchNorm in a convolutional network. In a dense network at batch size 128, both "
        "norms end alike.",
        (
            Finding(
                "Convolutional: is BatchNorm faster than LayerNorm?",
                "convolutional",
                "fewer epochs than LayerNorm to 97",
            ),
            Finding(
                "Convolutional: does BatchNorm end better?",
                "convolutional",
                "BatchNorm ends better than LayerNorm (MNIST)",
            ),
            Finding(
                "Dense: does BatchNorm end better?",
                "permutation_invariant",
                "BatchNorm ends better",
            ),
            Finding("Do noisier batch statistics regularize?", "noise", "end better (1,000"),
            Finding(
                "Is BatchNorm better before the activation?",
                "convolutional",
                "before the activation than after it (MNIST)",
            ),
            Finding(
                "Does BatchNorm reduce covariate shift?", "covariate_shift", "BatchNorm reduces"
            ),
        ),
    ),
    Topic(
        "Click-through-rate models",
        "1 no, 2 not decided",
        "No norm of embeddings is known to help. Centering alone is better than dividing alone.",
        (
            Finding("Does BatchNorm of embeddings help?", "click_through_rate", "BN on embeddings"),
            Finding("Does LayerNorm of embeddings help?", "click_through_rate", "LN on embeddings"),
            Finding(
                "Is dividing better than centering?",
                "click_through_rate",
                "centering alone (Frappe; embeddings and hidden)",
            ),
        ),
    ),
    Topic(
        "Exported models and tokens",
        "2 yes",
        "Exported files give the translations of the Keras model. BPE subwords translate better "
        "than characters.",
        (
            Finding(
                "Do exported files give Keras' translations?",
                "translation",
                "token by token (BPE)",
            ),
            Finding(
                "Are BPE subwords better than characters?",
                "translation",
                "BPE subwords are better than characters",
            ),
        ),
    ),
)
