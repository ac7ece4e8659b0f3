"""Chinese into English by characters, words and subwords; exported, as a stream: claim 13."""

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
WIDTH = 4  # of the beam
STREAMED, CHECKED = 200, 16  # sentences that the files write, and that `check` reads


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Ids of the pairs; and of "translated", what is asked for.

    Those are the Chinese sentences of the test, each once with all its translations. Without a
    segmenter there are no Chinese words: to English words come Chinese characters. To learn from,
    the few English sentences that have more tokens than 99 of 100 are cut.
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
    asked: dict[str, list[str]] = {}
    for english, chinese in parts["test"]:
        asked.setdefault(chinese, []).append(english)
    references = np.empty(len(asked), object)
    references[:] = list(asked.values())
    return found | {"translated": ((tokens, tokens.sources(list(asked))), references)}


def build(arm: Arm, parts: Parts) -> keras.Model:
    """From a Chinese sentence, and the English one so far, to each next token of it."""
    (tokens, _), _ = parts["translated"]
    english = keras.Input((None,), dtype="int32", name="english")
    chinese = keras.Input((None,), dtype="int32", name="chinese")
    read = reader(arm.model, tokens.chinese.get_vocab_size())
    write = writer(arm.model, tokens.english.get_vocab_size())
    answer = write({"english": english, "chinese": chinese, **read({"chinese": chinese})})
    return keras.Model({"chinese": chinese, "english": english}, answer["next"])


def loss(targets: Any, outputs: Any) -> Any:
    """The mean of -log p over the tokens that are no padding."""
    nats = keras.losses.sparse_categorical_crossentropy(targets, outputs)
    there = ops.cast(ops.not_equal(targets, translation_pairs.PAD), nats.dtype)
    return ops.sum(nats * there) / ops.sum(there)


def score(outputs: np.ndarray, targets: np.ndarray) -> Scores:
    """Nats of a sentence, all its tokens together: the same text, however it is cut."""
    right = np.take_along_axis(outputs, targets[..., None], axis=-1)[..., 0].astype("float64")
    nats = -np.log(np.maximum(right, 1e-12)) * (targets != translation_pairs.PAD)
    return {"nats": float(nats.sum() / len(targets))}


def measure(model: keras.Model, parts: Parts) -> Scores:
    """BLEU, greedy and by beam; and how much of it the exported files write as Keras does."""
    (tokens, chinese), references = parts["translated"]
    longest = parts["test"][1].shape[1]
    read, write = model.get_layer("reader"), model.get_layer("writer")
    greedy = functools.partial(beam_search.greedy, longest=longest)
    beam = functools.partial(beam_search.beam, longest=longest, width=WIDTH)
    calls = read.predict_on_batch, write.predict_on_batch
    found, wider = (translate(*calls, chinese, search) for search in (greedy, beam))
    few = {name: ids[:CHECKED] for name, ids in parts["test"][0].items()}
    plain, best = (bleu(tokens.written(ids), references) for ids in (found, wider))
    return {
        "bleu": best,
        "bleu_greedy": plain,
        "beam_gain": best - plain,
        **exported(read, write, few, chinese[:STREAMED], greedy, found[:STREAMED]),
    }


LN = "LN-LSTM"
_better = functools.partial(Question, score="bleu", above=0.5, unit="BLEU")

STUDY = Study(
    name="translation",
    title="Translation, Chinese into English",
    paper="No paper: the pipeline stands in documents on text, tokens and sequence models. The "
    "attention is that of Luong et al. 2015, the subwords are those of Sennrich et al. 2016 (BPE) "
    "and Kudo 2018 (unigram).",
    otherwise="Smaller: 18,480 pairs of short sentences (Tatoeba; English of at most 32 "
    "characters, Chinese of 14), one LSTM of 96 units that reads and one that writes. No "
    "sentence of the test, nor another translation of it, is in the training. Each vocabulary "
    "has at most 3,000 tokens; a character or a word that is there once is unknown. There is no "
    "segmenter for Chinese, so that the model of English words reads Chinese characters. BLEU is "
    "sacrebleu's, with case and against all translations that there are, of a beam of 4. Every "
    "model is exported, reader and writer apart, as SavedModel and TFLite, both are checked, and "
    "write 200 sentences token by token. Half a point of BLEU counts.",
    changed="Rates were of 2e-3 to 8e-3 at first, chosen after two rounds: the largest for every "
    "LN-LSTM, and the smallest for an LSTM that had learned nothing yet. A fourth, of 4e-3, was "
    "tried for five rounds too, and was the best of no model.",
    work=Training(load, build, loss, score, "nats", higher=False, measure=measure),
    arms=(
        *(Arm(task, LN) for task in (CHARACTERS, WORDS, BYTE_PAIRS, UNIGRAM)),
        Arm(BYTE_PAIRS, "LSTM"),
    ),
    questions=(
        *(
            Question(
                13,
                f"an exported {LN} writes, token by token, what Keras writes ({task})",
                "same",
                ((task, LN),),
                above=99.5,
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
    minutes=3.5,
    scores={
        "bleu": ("BLEU, beam of 4", 1, 1),
        "bleu_greedy": ("BLEU, greedy", 1, 1),
        "nats": ("nats of a sentence", 1, 1),
        "same": ("files write the same, %", 1, 1),
        "difference": ("largest difference in the check", 1, 6),
        "failed": ("checks that fail", 1, 0),
    },
)
