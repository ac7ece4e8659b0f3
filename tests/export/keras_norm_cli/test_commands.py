"""`keras-norm check`, `compare`, `inspect` and `recalibrate`."""

import json

import keras
import numpy as np

import keras_norm
from tests.export import models
from tests.export.keras_norm_cli.arguments import CHECK, refused, replace_in_config


def test_check_passes_an_export_and_writes_both_reports(run, tmp_path):
    reports = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    status, out, err = run(*CHECK, "--labels", "{}/labels.npz", *reports)
    assert (status, err) == (0, "")
    assert out.startswith("PASS")
    assert "y: accuracy" in out
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["passed"] is True
    assert report["artifacts"][0]["metrics"] == report["keras"]["metrics"]
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "plain").touch()
    assert (tmp_path / "r.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_check_reads_data_from_several_files(run, folder, tmp_path):
    data, labels = np.load(folder / "data.npz")["x"], np.load(folder / "labels.npz")["y"]
    for k in range(2):
        np.savez(tmp_path / f"x{k}.npz", x=data[4 * k : 4 * k + 4])
        np.savez(tmp_path / f"y{k}.npz", y=labels[4 * k : 4 * k + 4])
    files = [[tmp_path / f"{name}{k}.npz" for k in range(2)] for name in "xy"]
    arguments = ("check", "{}/model.keras", "{}/right", "--data", *files[0], "--labels", *files[1])
    status, out, _ = run(*arguments)
    assert (status, "on 8 samples" in out, "accuracy" in out) == (0, True, True)
    assert "one file of labels for each" in refused(run(*arguments[:-1]))


def test_compare_reports_changes_with_status_0(run, tmp_path):
    arguments = ("compare", "{}/model.keras", "{}/wrong", "{}/right", "--data", "{}/data.npz")
    reports = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    status, out, _ = run(*arguments, "--labels", "{}/labels.npz", *reports)
    assert status == 0
    assert "wrong: y: " in out
    assert "right: y: 0 of 8 predictions change" in out
    assert {path.name for path in tmp_path.iterdir()} == {"r.json", "r.html"}


def test_inspect_lists_norms_inside_cells_with_their_statistics(run):
    status, out, err = run("inspect", "{}/digits.keras", "--data", "{}/data.npz")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    for part in ("digits", "(any, any, 3)", "kernel_norm", "recurrent_norm", "state_norm"):
        assert part in text
    assert "TimestepBatchNormalization" in text
    assert "timesteps: 3/5" in text
    assert "No recurrent layer removes the scale of the model's inputs." in text


def test_inspect_names_the_layer_that_lost_a_mask(run, tmp_path):
    x = keras.Input((None, 3))
    h = keras.layers.Masking()(x) * 2.0
    keras.Model(x, keras_norm.LayerNormGRU(2, name="gru")(h)).save(tmp_path / "lost.keras")
    status, out, err = run("inspect", tmp_path / "lost.keras")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    assert "Lost mask: operation 'multiply" in text
    assert "'gru' would use the mask, but reads padding as data" in text


def test_a_npy_file_is_read_for_a_model_with_one_input(run, tmp_path):
    check = ("check", "{}/model.keras", "{}/right", "--data", "{}/data.npy")
    status, out, _ = run(*check, "--labels", "{}/labels.npy")
    assert (status, "on 8 samples" in out, "accuracy" in out) == (0, True, True)
    export = ("export", "{}/model.keras", "--to", tmp_path / "out", "--samples", "{}/data.npy")
    assert run(*export)[0] == 0
    x, z = keras.Input((None, 3), name="x"), keras.Input((None, 3), name="z")
    keras.Model([x, z], x + z).save(tmp_path / "two.keras")
    for command in (
        ("check", tmp_path / "two.keras", "{}/right", "--data", "{}/data.npy"),
        ("export", tmp_path / "two.keras", "--to", tmp_path / "two", "--samples", "{}/data.npy"),
        ("recalibrate", tmp_path / "two.keras", "--data", "{}/data.npy", "--to", "new.keras"),
        ("inspect", tmp_path / "two.keras", "--data", "{}/data.npy"),
    ):
        assert "has 2 inputs: give arrays by name ('x', 'z'), as a dict or a .npz" in refused(
            run(*command)
        )


NAME = "a\nPASS: forged\x1b[31m\u202e[red]"


def test_markup_and_escapes_in_names_are_printed_as_text(run, tmp_path):
    """Line breaks, escape sequences and markup in a name change nothing on the terminal."""
    inputs = keras.Input((3,), name="x")
    norm = keras_norm.LayerNormalization(name=NAME)
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(norm(inputs)), name=NAME)
    model.save(tmp_path / "m.keras")
    status, out, err = run("inspect", tmp_path / "m.keras")
    assert (status, err) == (0, "")
    assert out.startswith(r"Model a\nPASS: forged\x1b[31m\u202e[red], ")
    assert all(character.isprintable() for character in out.replace("\n", ""))
    assert not any(line.startswith("PASS") for line in out.splitlines())
    name = json.dumps(NAME)[1:-1].encode()
    replace_in_config(tmp_path / "m.keras", b"LayerNormalization", name, tmp_path / "n.keras")
    said = refused(run("inspect", tmp_path / "n.keras"))
    assert all(character.isprintable() for character in said.replace("\n", ""))


def test_recalibrate_writes_a_model_with_the_statistics_of_the_data(run, folder, tmp_path):
    rnn = keras_norm.BatchNormSimpleRNN(4, max_timesteps=5, name="rnn")
    models.stack(rnn).save(tmp_path / "old.keras")
    new = tmp_path / "new.keras"
    arguments = ("recalibrate", tmp_path / "old.keras", "--data", "{}/data.npz", "--to", new)
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert out == f"{new}  1 batches\n"
    norm = keras.saving.load_model(new).get_layer("rnn").cell.kernel_norm
    data = np.load(folder / "data.npz")["x"]
    expected = (data[:, 0] @ np.asarray(rnn.cell.kernel)).mean(axis=0)
    np.testing.assert_allclose(norm.moving_mean[0], expected, rtol=1e-4, atol=1e-6)
    assert "exists and is not overwritten" in refused(run(*arguments))


def test_convert_writes_a_compiled_model_with_norms_and_prints_its_layers(run, tmp_path):
    old, new = tmp_path / "old.keras", tmp_path / "new.keras"
    model = keras.Sequential([keras.Input((4, 6)), keras.layers.LSTM(3, name="lstm")])
    model.compile("sgd", "mae")
    model.save(old)
    arguments = ("convert", old, "--norm", "batch", "--where", "lstm", "--to", new)
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    *table, last = out.splitlines()
    names = ["layer", "keras.layers", "keras_norm", "lstm", "LSTM", "BatchNormLSTM"]
    assert " ".join(table).split() == names
    assert "accuracy drops until you train the new model" in last
    converted = keras.saving.load_model(new)
    assert converted.get_layer("lstm").max_timesteps == 4
    assert converted.get_compile_config()["loss"] == "mae"
    assert "exists and is not overwritten" in refused(run(*arguments))
    wrong = ("convert", old, "--where", "gru", "--to", tmp_path / "other.keras")
    assert "--where gru selects no layer that can be converted" in refused(run(*wrong))


def test_a_batch_norm_of_a_dynamic_length_needs_the_option_max_timesteps(run, tmp_path):
    keras.Sequential([keras.Input((None, 6)), keras.layers.LSTM(3)]).save(tmp_path / "old.keras")
    arguments = ("convert", tmp_path / "old.keras", "--norm", "batch", "--to", tmp_path / "n.keras")
    message = refused(run(*arguments))
    assert "--norm batch needs the number of timesteps" in message
    assert "such as --max-timesteps 100." in message
