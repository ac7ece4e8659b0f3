"""The smallest preset, the files as they are published, and sentences as ids."""

import json

import keras
import numpy as np
import pytest
import tokenizers

from examples import sentence_classification as example
from examples.common.command import parse
from examples.common.results import Run

TEXTS = ["Who wrote it ?", "who knows", "Where is it ?"]


def test_smoke_trains_exports_and_checks(data, tmp_path, capsys):
    arguments = ["--preset", "smoke", "--data", str(data), "--out", str(tmp_path)]
    assert example.main(arguments) == 0
    entries = json.loads((tmp_path / "results.json").read_text())["entries"]
    assert [run["seed"] for run in entries["runs"]] == [0, 1]
    for run in entries["runs"]:
        cut, whole, share = (
            run[name] for name in ("test_accuracy_cut", "test_accuracy", "test_accuracy_long")
        )
        # Only the longer sentences are read differently.
        longer = run["long"] * (share - run["test_accuracy_long_cut"])
        np.testing.assert_allclose(377 * (whole - cut), longer, atol=1e-6)
    (check,) = entries["checks"]
    assert check["passed"]
    assert (tmp_path / "curves.png").is_file()
    assert list((tmp_path / "logs").glob("*/train/events*"))
    folder = tmp_path / "cr-bn-gru"
    assert (folder / "saved_model" / "1" / "saved_model.pb").is_file()
    assert (folder / "model.tflite").is_file()
    assert (folder / "tokenizer.json").is_file()
    assert "BN-GRU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "encoding"), [("rt-polarity.all", "latin-1"), ("custrev.all", "utf-8")]
)
def test_a_line_is_a_class_and_a_sentence(tmp_path, name, encoding):
    (tmp_path / name).write_bytes("1 a café \n0 \n0 it's 1 of 2 . \n".encode(encoding))
    texts, classes = example.read(tmp_path / name)
    assert [text.strip() for text in texts] == ["a café", "", "it's 1 of 2 ."]
    np.testing.assert_array_equal(classes, [1, 0, 0])


def test_an_ellipsis_of_windows_ends_no_line(tmp_path):
    (tmp_path / "rt-polarity.all").write_bytes(b"1 well \x85 no\n0 yes\n")
    texts, _ = example.read(tmp_path / "rt-polarity.all")
    assert len(texts) == 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with a few sentences in every form that they come in."""
    files = tmp_path / "sentence_classification"
    files.mkdir()
    parts = ("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test")
    for name in (*example.FILES.values(), *parts):
        (files / name).write_text("".join(f"{k % 2} {name} {k}\n" for k in range(40)))

    def from_tfds(name, split, data):
        texts = [f"{name} {split} {k}".encode() for k in range(40)]
        return {"text": np.array(texts, object), "label-coarse": np.arange(40) % 6}

    monkeypatch.setattr(example.data, "from_tfds", from_tfds)
    return tmp_path


@pytest.mark.parametrize("dataset", example.DATASETS)
def test_a_sentence_is_in_one_part_and_always_in_the_same(dataset, folder):
    parts = example.load(dataset, folder)
    texts = [text for part in ("training", "validation", "test") for text in parts[part][0]]
    assert len(texts) == len(set(texts)) == {"TREC": 80, "SST": 120}.get(dataset, 40)
    keras.utils.set_random_seed(1)
    for part, (again, classes) in example.load(dataset, folder).items():
        np.testing.assert_array_equal(again, parts[part][0])
        numbers = np.array([int(text.split()[-1]) for text in again])
        np.testing.assert_array_equal(classes, numbers % (6 if dataset == "TREC" else 2))


def test_the_published_split_is_kept_where_there_is_one(folder):
    trec = example.load("TREC", folder)
    assert [len(trec[part][0]) for part in ("training", "validation", "test")] == [36, 4, 40]
    assert all(text.startswith("trec test") for text in trec["test"][0])
    assert all("binary.dev" in text for text in example.load("SST", folder)["validation"][0])


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("words", ["who", "wrote", "[UNK]"]),
        ("characters", [*"who wrote ", "[UNK]", "[UNK]", "[UNK]"]),
        ("subwords", ["▁who", "▁wrote", "▁", "[UNK]", "[UNK]", "[UNK]"]),
    ],
)
def test_tokens_are_those_of_the_training_sentences(tokens, expected):
    assert example.tokenizer_of(TEXTS, tokens, 100).encode("Who wrote XYZ").tokens == expected


@pytest.mark.parametrize("tokens", ["words", "characters", "subwords"])
def test_ids_0_and_1_are_reserved_and_the_file_has_all(tokens, tmp_path):
    tokenizer = example.tokenizer_of(TEXTS, tokens, 100)
    assert [tokenizer.id_to_token(k) for k in (0, 1)] == ["[PAD]", "[UNK]"]
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = example.encode(tokenizer, [*TEXTS, "XYZ", ""])
    np.testing.assert_array_equal(example.encode(loaded, [*TEXTS, "XYZ", ""]), ids)


def test_shorter_sentences_are_padded_on_the_right():
    ids = example.encode(example.tokenizer_of(TEXTS, "words", 100), [*TEXTS, "XYZ", ""])
    assert ids.shape == (5, 4)
    np.testing.assert_array_equal((ids > 0).sum(axis=1), [4, 2, 4, 1, 0])
    assert ids[1, :2].all()
    assert ids[3, 0] == 1


def test_the_vocabulary_is_that_of_the_sentences_that_are_learned_from(folder):
    asked = parse("", "A.", example.PRESETS, ["--preset", "smoke", "--data", str(folder)])
    corpus = example.prepare(asked, example.Task("CR", "CR", seeds=1, epochs=1, training=5))
    ids, _ = corpus.parts["training"]
    assert ids.shape == (5, 2)
    assert (ids > 1).all()
    # The numbers in the other sentences were not learned from.
    assert all((corpus.parts[part][0][:, 1] == 1).all() for part in ("validation", "test"))


def test_a_model_that_starts_again_learns_the_same(folder):
    settings = example.PRESETS["smoke"]
    asked = parse("", "A.", example.PRESETS, ["--preset", "smoke", "--data", str(folder)])
    task = example.Task("CR", "CR", seeds=1, epochs=1)
    corpus = example.prepare(asked, task)
    model = example.build(settings, task, "GRU", corpus)
    losses = []
    for seed in (0, 1, 0):
        keras.utils.set_random_seed(seed)
        example.restart(model, example.build(settings, task, "GRU", corpus))
        batch = corpus.parts["training"]
        losses.append([model.train_on_batch(*batch)[0] for _ in range(3)])
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-6)
    assert np.abs(np.subtract(losses[1], losses[0])).min() > 1e-6


def test_rows_have_the_spread_over_seeds_and_no_figure_where_sentences_are_few():
    names = ("test_accuracy", "test_accuracy_cut", "test_accuracy_long", "test_accuracy_long_cut")
    runs = [
        {**vars(Run("TREC", "GRU", seed)), "seconds": 3.0, **dict.fromkeys(names, 0.5 + seed / 10)}
        for seed in (0, 1)
    ]
    (row,) = example.rows(runs)
    assert row[:3] == ["TREC", "GRU", "55.0 ± 63.5"]
    (row,) = example.rows([run | {"test_accuracy_long": None} for run in runs])
    assert row[4] == ""
    assert len(row) == len(example.HEADER)
