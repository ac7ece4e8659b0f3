"""Chinese-English translation with characters, words and subwords; exported models: claim 13."""

import functools
import pathlib
from typing import Any

import keras
import numpy as np
from keras import ops

from experiments.harness import beam_search, translation_pairs
from experiments.harness.study import Arm, Parts, Question, Scores, Size, Study, Training
from experiments.harness.translation_pairs import BYTE_PAIRS, CHARACTERS, UNIGRAM, WORDS, Tokens
from experiments.harness.translators import bleu, exported, reader, translate, writer

VOCABULARY = 3000
WIDTH = 4  # beam width
STREAMED, CHECKED = 200, 16  # sentences that the files translate, and test inputs of `check`


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load the ids of the pairs, and as part "translated" the sentences to translate.

    The part "translated" has each Chinese test sentence once, with all its translations. There is
    no segmenter for Chinese words, so English words go with Chinese characters. In training,
    English sentences are truncated at the length that 99 of 100 have at most.
    """
    parts = {
        name: part[:samples]
        for name, part in translation_pairs.split(translation_pairs.read(folder)).items()
    }
    english, chinese = zip(*parts["training"], strict=True)
    source = CHARACTERS if task == WORDS else task
    tokens = Tokens(
        translation_pairs.tokenizer_of(chinese, source, VOCABULARY),
        translation_pairs.tokenizer_of(english, task, VOCABULARY),
    )
    found: dict[str, tuple[object, np.ndarray]] = {}
    for name, part in parts.items():
        english, chinese = zip(*part, strict=True)
        ids = tokens.targets(english)
        if name == "training":
            ids = ids[:, : int(np.percentile((ids != translation_pairs.PAD).sum(axis=1), 99))]
        found[name] = {"chinese": tokens.sources(chinese), "english": ids[:, :-1]}, ids[:, 1:]
    translations: dict[str, list[str]] = {}
    for english, chinese in parts["test"]:
        translations.setdefault(chinese, []).append(english)
    references = np.empty(len(translations), object)
    references[:] = list(translations.values())
    return found | {"translated": ((tokens, tokens.sources(list(translations))), references)}


def build(arm: Arm, parts: Parts) -> keras.Model:
    """Build a model from a Chinese sentence and the English tokens so far to each next token."""
    (tokens, _), _ = parts["translated"]
    english = keras.Input((None,), dtype="int32", name="english")
    chinese = keras.Input((None,), dtype="int32", name="chinese")
    read = reader(arm.model, tokens.chinese.get_vocab_size())
    write = writer(arm.model, tokens.english.get_vocab_size())
    outputs = write({"english": english, "chinese": chinese, **read({"chinese": chinese})})
    return keras.Model({"chinese": chinese, "english": english}, outputs["next"])


def loss(targets: Any, outputs: Any) -> Any:
    """Return the mean of -log p over the unpadded tokens."""
    nats = keras.losses.sparse_categorical_crossentropy(targets, outputs)
    there = ops.cast(ops.not_equal(targets, translation_pairs.PAD), nats.dtype)
    return ops.sum(nats * there) / ops.sum(there)


def score(outputs: np.ndarray, targets: np.ndarray) -> Scores:
    """Return the nats of a sentence, summed over its tokens to be comparable between tokenizers."""
    right = np.take_along_axis(outputs, targets[..., None], axis=-1)[..., 0].astype("float64")
    nats = -np.log(np.maximum(right, 1e-12)) * (targets != translation_pairs.PAD)
    return {"nats": float(nats.sum() / len(targets))}


def measure(model: keras.Model, parts: Parts) -> Scores:
    """Return BLEU by greedy and beam search, and the agreement of the exported files with Keras."""
    (tokens, chinese), references = parts["translated"]
    longest = parts["test"][1].shape[1]
    read, write = model.get_layer("reader"), model.get_layer("writer")
    greedy = functools.partial(beam_search.greedy, longest=longest)
    beam = functools.partial(beam_search.beam, longest=longest, width=WIDTH)
    calls = read.predict_on_batch, write.predict_on_batch
    found, wider = (translate(*calls, chinese, search) for search in (greedy, beam))
    few = {name: ids[:CHECKED] for name, ids in parts["test"][0].items()}
    greedy_bleu, beam_bleu = (bleu(tokens.written(ids), references) for ids in (found, wider))
    return {
        "bleu": beam_bleu,
        "bleu_greedy": greedy_bleu,
        "beam_gain": beam_bleu - greedy_bleu,
        **exported(read, write, few, chinese[:STREAMED], greedy, found[:STREAMED]),
    }


LN = "LN-LSTM"
_better = functools.partial(Question, score="bleu", threshold=0.5, unit="BLEU")

STUDY = Study(
    name="translation",
    title="Translation from Chinese to English",
    question="Which tokens translate best, does LayerNorm help, and do exported models write "
    "what Keras writes?",
    paper="No paper: the pipeline is described in documents about text, tokens and sequence "
    "models. The attention is that of Luong et al. 2015. The subwords are those of Sennrich et "
    "al. 2016 (BPE) and Kudo 2018 (unigram).",
    differences="Smaller: 18,480 pairs of short sentences from Tatoeba, with English of at most "
    "32 characters and Chinese of at most 14. One LSTM of 96 units reads and one writes. No test "
    "sentence, nor another translation of it, is in the training data. Each vocabulary has at "
    "most 3,000 tokens; a character or word that occurs once is unknown. There is no segmenter "
    "for Chinese, so the model of English words reads Chinese characters. BLEU is computed by "
    "sacrebleu with beam search of width 4, with case, and against all available translations. "
    "Each model is exported as SavedModel and TFLite, with reader and writer apart. All files "
    "are checked and write 200 sentences token by token. Half a point of BLEU counts.",
    revisions="The rates were 2e-3 to 8e-3 at first, chosen after two rounds. Every LN-LSTM "
    "chose the largest. An LSTM that had learned nothing yet chose the smallest. A fourth rate "
    "of 4e-3, tried for five rounds, was the best of no model.",
    work=Training(load, build, loss, score, "nats", maximize=False, measure=measure),
    arms=(
        *(Arm(task, LN) for task in (CHARACTERS, WORDS, BYTE_PAIRS, UNIGRAM)),
        Arm(BYTE_PAIRS, "LSTM"),
    ),
    questions=(
        *(
            Question(
                13,
                f"exported files of the {LN} write Keras' sentences token by token ({task})",
                "same",
                ((task, LN),),
                threshold=99.5,
                unit="% of the sentences",
                digits=1,
            )
            for task in (CHARACTERS, WORDS, BYTE_PAIRS, UNIGRAM)
        ),
        _better(
            12,
            f"{LN} is better than LSTM (BPE)",
            plus=((BYTE_PAIRS, LN),),
            minus=((BYTE_PAIRS, "LSTM"),),
        ),
        *(
            _better(
                13,
                f"{subwords} subwords are better than {other}",
                plus=((subwords, LN),),
                minus=((other, LN),),
            )
            for subwords in (BYTE_PAIRS, UNIGRAM)
            for other in (CHARACTERS, WORDS)
        ),
    ),
    full=Size(None, 16_640, 60, patience=2, seeds=5, rates=(2e-3, 8e-3, 16e-3), trial=5),
    smoke=Size(64, 64, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores={
        "bleu": ("BLEU, beam width 4", 1, 1),
        "bleu_greedy": ("BLEU, greedy", 1, 1),
        "nats": ("nats of a sentence", 1, 1),
        "same": ("sentences that files write as Keras does, %", 1, 1),
        "difference": ("largest difference in the check", 1, 6),
        "failed": ("failed checks", 1, 0),
    },
)
