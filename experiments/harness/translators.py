"""Reader and writer of a translation model, as Keras models and as exported files."""

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
BATCH = 250  # sentences translated in one batch

LAYERS = {"LSTM": keras_norm.NormLSTM, "LN-LSTM": keras_norm.LayerNormLSTM}

# Maps inputs by name to outputs by name: a Keras model or an exported file.
Call = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

# Maps a step function of the writer and its initial states to the ids of sentences.
Search = Callable[[beam_search.Step, beam_search.States], list[list[int]]]


def reader(model: str, vocabulary: int) -> keras.Model:
    """Build the encoder: an LSTM over the Chinese sentence.

    Its outputs are all states h, and the last h and c.
    """
    chinese = keras.Input((None,), dtype="int32", name="chinese")
    x = keras.layers.Embedding(vocabulary, UNITS, mask_zero=True)(chinese)
    x = keras.layers.Dropout(DROPOUT)(x)
    encoded, h, c = _recurrent(model, "encoder")(x)
    return keras.Model({"chinese": chinese}, {"encoded": encoded, "h": h, "c": c}, name="reader")


def writer(model: str, vocabulary: int) -> keras.Model:
    """Build the decoder: it maps the encoded sentence and initial states to next tokens and states.

    A caller can feed the states back to generate one token after another. The attention is that
    of Luong et al. 2015: softmax(h_t . encoded) weights the encoded states. The next token follows
    from tanh of a linear layer of h_t and the weighted sum.
    """
    inputs = {
        "english": keras.Input((None,), dtype="int32", name="english"),
        "chinese": keras.Input((None,), dtype="int32", name="chinese"),  # for the padding mask
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
    """Return the ids of the English sentences that a search finds, one token a call."""

    def step(last: np.ndarray, states: beam_search.States) -> tuple[np.ndarray, beam_search.States]:
        outputs = write({"english": last[:, None], **states})
        return outputs["next"][:, -1], {**states, "h": outputs["h"], "c": outputs["c"]}

    found = []
    for start in range(0, len(chinese), BATCH):
        inputs = {"chinese": chinese[start : start + BATCH]}
        found += search(step, {**inputs, **read(inputs)})
    return found


def bleu(written: list[str], references: np.ndarray) -> float:
    """Return BLEU in percent; each sentence may have several references."""
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
    """Export both models, check the files and translate with them.

    Args:
        read: the reader.
        write: the writer.
        test: ids of both languages, as test inputs of `check`.
        chinese: ids of the sentences to translate.
        search: search function.
        expected: the translations of Keras.

    Returns:
        same: percentage of sentences that the files translate exactly as Keras does.
        difference: largest difference that `check` found.
        failed: number of failed checks.
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
