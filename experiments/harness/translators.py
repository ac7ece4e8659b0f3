"""A model that reads a sentence, and one that writes it in another language, as files too."""

import pathlib
import tempfile
from collections.abc import Callable, Mapping

import keras
import numpy as np
import sacrebleu
from keras import ops

import keras_norm
from experiments.harness import beam_search
from experiments.harness.study import Scores
from experiments.harness.translation_pairs import PAD
from keras_norm.export import check, export_saved_model, export_tflite, open_runner

UNITS, DROPOUT = 96, 0.2
TOGETHER = 250  # sentences that are translated side by side

LAYERS = {"LSTM": keras_norm.NormLSTM, "LN-LSTM": keras_norm.LayerNormLSTM}

# Outputs by name, from inputs by name: of a Keras model, or of a file.
Call = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

# Ids of sentences, from a step of the writer and the states that it starts from.
Search = Callable[[beam_search.Step, beam_search.States], list[list[int]]]


def reader(model: str, vocabulary: int) -> keras.Model:
    """The Chinese sentence, encoded: every state h of an LSTM, and its last h and c."""
    chinese = keras.Input((None,), dtype="int32", name="chinese")
    x = keras.layers.Embedding(vocabulary, UNITS, mask_zero=True)(chinese)
    x = keras.layers.Dropout(DROPOUT)(x)
    encoded, h, c = _recurrent(model, "encoder")(x)
    return keras.Model({"chinese": chinese}, {"encoded": encoded, "h": h, "c": c}, name="reader")


def writer(model: str, vocabulary: int) -> keras.Model:
    """The English sentence from the encoded one, and from h and c as they were before it.

    It gives h and c after it too: whoever feeds them back asks for one token after another. The
    attention is Luong's (2015): softmax(h_t . encoded) weighs what is encoded, and tanh of a linear
    layer of both is what the next token follows from.
    """
    inputs = {
        "english": keras.Input((None,), dtype="int32", name="english"),
        "chinese": keras.Input((None,), dtype="int32", name="chinese"),  # tells what is padding
        "encoded": keras.Input((None, UNITS), name="encoded"),
        "h": keras.Input((UNITS,), name="h"),
        "c": keras.Input((UNITS,), name="c"),
    }
    x = keras.layers.Embedding(vocabulary, UNITS)(inputs["english"])
    x = keras.layers.Dropout(DROPOUT)(x)
    states = [inputs["h"], inputs["c"]]
    x, h, c = _recurrent(model, "decoder")(x, initial_state=states)
    words = ops.not_equal(inputs["chinese"], PAD)
    seen = keras.layers.Attention()([x, inputs["encoded"]], mask=[None, words])
    x = keras.layers.Dense(UNITS, "tanh")(keras.layers.Concatenate()([x, seen]))
    x = keras.layers.Dropout(DROPOUT)(x)
    following = keras.layers.Dense(vocabulary, "softmax", name="next")(x)
    return keras.Model(inputs, {"next": following, "h": h, "c": c}, name="writer")


def _recurrent(model: str, name: str) -> keras.layers.Layer:
    return LAYERS[model](UNITS, return_sequences=True, return_state=True, name=name)


def translate(read: Call, write: Call, chinese: np.ndarray, search: Search) -> list[list[int]]:
    """Ids of the English sentences that a search finds, a token a call."""

    def step(last: np.ndarray, states: beam_search.States) -> tuple[np.ndarray, beam_search.States]:
        answer = write({"english": last[:, None], **states})
        return answer["next"][:, -1], {**states, "h": answer["h"], "c": answer["c"]}

    found = []
    for start in range(0, len(chinese), TOGETHER):
        inputs = {"chinese": chinese[start : start + TOGETHER]}
        found += search(step, {**inputs, **read(inputs)})
    return found


def bleu(written: list[str], references: np.ndarray) -> float:
    """BLEU of sentences, each of which may have several references, in percent."""
    most = max(map(len, references))
    streams = [[r[n] if n < len(r) else None for r in references] for n in range(most)]
    return sacrebleu.corpus_bleu(written, streams).score


def exported(
    read: keras.Model,
    write: keras.Model,
    test: Mapping[str, np.ndarray],
    chinese: np.ndarray,
    search: Search,
    expected: list[list[int]],
) -> Scores:
    """Export both models, check the files, and let them write.

    Args:
        read: the reader.
        write: the writer.
        test: ids to check with, of both languages.
        chinese: ids of the sentences to translate.
        search: how.
        expected: what Keras writes.

    Returns:
        The percentage of sentences that SavedModel and TFLite file write, token by token, as Keras
        does; the largest difference that `check` found; how many checks failed.
    """
    samples = {"chinese": test["chinese"]}
    inputs = {**test, **read.predict_on_batch(samples)}
    with tempfile.TemporaryDirectory() as folder:
        files = [
            (
                export_saved_model(model, pathlib.Path(folder, model.name)),
                export_tflite(model, pathlib.Path(folder, f"{model.name}.tflite")),
            )
            for model in (read, write)
        ]
        reports = [
            check(model, both, given)
            for model, both, given in zip((read, write), files, (samples, inputs), strict=True)
        ]
        same = 0
        for reader_file, writer_file in zip(*files, strict=True):
            with open_runner(reader_file) as reading, open_runner(writer_file) as writing:
                found = translate(reading, writing, chinese, search)
            same += sum(a == b for a, b in zip(found, expected, strict=True))
    return {
        "same": 100 * same / (2 * len(expected)),
        "difference": max(
            output.max_abs or 0.0
            for report in reports
            for artifact in report.artifacts
            for output in artifact.outputs
        ),
        "failed": float(sum(not report for report in reports)),
    }
