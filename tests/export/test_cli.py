import contextlib
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import zipfile

import keras
import numpy as np
import pytest

import keras_norm
import keras_norm_cli
from keras_norm.export import commands, export_saved_model
from keras_norm_cli import interrupts, main


@keras.saving.register_keras_serializable(package="tests")
class Shift(keras.layers.Layer):
    def call(self, x):
        return x + 1.0


@keras.saving.register_keras_serializable(package="tests")
class Broken(keras.layers.Layer):
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape)

    def call(self, x):
        return x * (1 // 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Save models, a SavedModel with the weights of a model and one with others, and data."""
    folder = tmp_path_factory.mktemp("cli")
    inputs = keras.Input((None, 3), name="x")
    # No recurrence: every command on one takes seconds, and `test_cli` runs many.
    h = keras.layers.GlobalAveragePooling1D()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(h))
    model.save(folder / "model.keras")
    export_saved_model(model, folder / "right")
    model.set_weights([w + 0.1 for w in model.get_weights()])
    export_saved_model(model, folder / "wrong")
    data = np.random.default_rng(0).normal(size=(8, 3, 3)).astype("float32")
    np.savez(folder / "data.npz", x=data)
    np.savez(folder / "labels.npz", y=np.arange(8) % 2)
    np.save(folder / "data.npy", data)
    np.save(folder / "labels.npy", np.arange(8) % 2)
    lstm = keras_norm.BatchNormLSTM(4, max_timesteps=5, name="lstm")
    digits = keras.Model(inputs, keras.layers.Dense(2, name="y")(lstm(inputs)), name="digits")
    digits(data, training=True)
    digits.save(folder / "digits.keras")
    return folder


@pytest.fixture
def run(folder, capfd):
    """Run a command; {} in an argument is the folder."""

    def command(*arguments):
        status = main([str(argument).format(folder) for argument in arguments])
        return status, *capfd.readouterr()

    return command


def refused(result):
    """Return the line that a refused command printed on stderr."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("keras-norm: ")
    assert err.count("\n") == 1
    return err


EXPORT = ("export", "{}/model.keras", "--to", "{}/q")
BOTH = ("--format", "saved_model", "tflite")
CHECK = ("check", "{}/model.keras", "{}/right", "--data", "{}/data.npz")


def test_check_passes_an_export_and_writes_both_reports(run, tmp_path):
    status, out, err = run(*CHECK, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert (status, err) == (0, "")
    assert out.startswith("PASS")
    assert json.loads((tmp_path / "r.json").read_text())["passed"] is True
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_export_of_a_recurrent_model_passes_check(run, tmp_path):
    keras.Sequential([keras.Input((None, 3), name="x"), keras.layers.SimpleRNN(2)]).save(
        tmp_path / "rnn.keras"
    )
    status, out, _ = run("export", tmp_path / "rnn.keras", "--to", tmp_path, *BOTH)
    assert status == 0
    assert out.count("serving_default, step") == 2
    files = (tmp_path / "saved_model", tmp_path / "model.tflite")
    status, out, _ = run("check", tmp_path / "rnn.keras", *files, "--data", "{}/data.npz")
    assert status == 0
    assert out.startswith("PASS")


def test_a_failed_format_removes_the_other_formats(run, tmp_path):
    layers = [keras.Input((3,), name="x"), keras.layers.Dense(2, dtype="mixed_float16")]
    keras.Sequential(layers).save(tmp_path / "half.keras")
    arguments = ("export", tmp_path / "half.keras", "--to", tmp_path / "out")
    said = refused(run(*arguments, *BOTH))
    assert "computes in float16" in said
    assert said.endswith("Nothing was written.\n")
    assert not (tmp_path / "out").exists()
    assert run(*arguments)[0] == 0


def test_an_unsupported_model_is_reported_for_all_formats(run, tmp_path):
    cells = keras.layers.SimpleRNN(2, stateful=True)
    keras.Sequential([keras.Input(batch_shape=(2, 4, 3), name="x"), cells]).save(
        tmp_path / "stateful.keras"
    )
    said = refused(run("export", tmp_path / "stateful.keras", "--to", tmp_path / "out", *BOTH))
    assert "is stateful" in said
    assert "Nothing was written" not in said


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


def test_check_measures_the_accuracy_on_labels(run, tmp_path):
    status, out, _ = run(*CHECK, "--labels", "{}/labels.npz", "--json", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert status == 0
    assert "y: accuracy" in out
    assert report["artifacts"][0]["metrics"] == report["keras"]["metrics"]


@pytest.mark.usefixtures("unexplained")
def test_check_fails_another_model_with_status_1(run):
    status, out, _ = run("check", "{}/model.keras", "{}/wrong", "--data", "{}/data.npz")
    assert status == 1
    assert out.startswith("FAIL: wrong")


def test_inspect_lists_norms_inside_cells_with_their_statistics(run):
    status, out, err = run("inspect", "{}/digits.keras")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    assert "digits" in text
    assert "(any, any, 3)" in text
    for name in ("kernel_norm", "recurrent_norm", "state_norm"):
        assert name in text
    assert "TimestepBatchNormalization" in text
    assert "timesteps: 3/5" in text


def test_export_takes_samples_for_the_warmup(run, tmp_path):
    pytest.importorskip("tensorflow_serving")
    to = tmp_path / "served"
    options = ("--warmup", "--samples", "{}/data.npz", "--no-golden-cases")
    status, _, err = run("export", "{}/model.keras", "--to", to, *options)
    assert (status, err) == (0, "")
    assert not (to / "saved_model" / "assets.extra" / "golden.npz").exists()
    assert (to / "saved_model" / "assets.extra" / "tf_serving_warmup_requests").stat().st_size


def test_export_writes_and_prints_a_version(run, tmp_path):
    status, out, err = run("export", "{}/model.keras", "--to", tmp_path / "served", "--version", 3)
    assert (status, err) == (0, "")
    assert str(tmp_path / "served/saved_model/3") in out
    assert (tmp_path / "served/saved_model/3/saved_model.pb").is_file()


def test_export_writes_a_tflite_file_beside_the_saved_model(run, tmp_path):
    status, out, _ = run("export", "{}/model.keras", "--to", tmp_path, *BOTH)
    assert status == 0
    assert out.count("kB") == 2
    assert (tmp_path / "model.tflite").is_file()


def test_an_existing_target_is_refused(run, tmp_path):
    (tmp_path / "saved_model").mkdir()
    assert "exists" in refused(run("export", "{}/model.keras", "--to", tmp_path))
    assert list((tmp_path / "saved_model").iterdir()) == []


def test_a_file_as_the_folder_of_an_export_is_refused(run, tmp_path):
    (tmp_path / "notes").write_text("theirs")
    assert "--to must be a folder" in refused(
        run("export", "{}/model.keras", "--to", tmp_path / "notes")
    )


def test_a_model_that_tflite_does_not_support_writes_nothing(run, tmp_path):
    inputs = keras.Input((3, 3))
    keras.Model(inputs, keras.ops.det(inputs)).save(tmp_path / "det.keras")
    target = tmp_path / "out"
    message = refused(run("export", tmp_path / "det.keras", "--to", target, *BOTH))
    assert "TFLite has no builtin operation for MatrixDeterminant" in message
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("chekc",), "invalid choice"),
        (("check", "{}/model.keras", "{}/right"), "required: --data"),
        (("inspect", "{}/nowhere.keras"), "nowhere.keras: no such file"),
        (("inspect", "{}/right"), "right is a folder"),
        (("inspect", "{}/right/saved_model.pb"), "is not a Keras model"),
        (("inspect", "{}/data.npz"), "data.npz cannot be loaded"),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--quantize", "float16"),
            "needs --format tflite",
        ),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--signature", "step"),
            "needs --format tflite",
        ),
        (
            (
                "export",
                "{}/model.keras",
                "--to",
                "{}/q",
                "--format",
                "tflite",
                "--signature",
                "step",
            ),
            "no recurrent layer, so it has no states",
        ),
        (
            (
                "export",
                "{}/model.keras",
                "--to",
                "{}/q",
                "--format",
                "tflite",
                "--quantize",
                "int8",
            ),
            "--quantize int8 needs samples for the scales of the activations. Give --samples FILE",
        ),
        (("export", "{}/model.keras", "--to", "{}/q", "--version", "0"), "version"),
        (
            ("export", "{}/model.keras", "--to", "{}/q", "--version", str(2**63)),
            "version must be at most 9223372036854775807",
        ),
        (("export", "{}/model.keras", "--to", ""), "an argument is empty"),
        (("inspect", ""), "an argument is empty"),
        (
            ("check", "{}/model.keras", "{}/nowhere", "--data", "{}/data.npz"),
            "nowhere: no such file",
        ),
        (
            ("check", "{}/model.keras", "{}/data.npz", "--data", "{}/data.npz"),
            "data.npz is not a SavedModel folder",
        ),
        (("check", "{}/model.keras", "{}/right", "--data", "{}/x.npz"), "x.npz: no such file"),
        (("check", "{}/model.keras", "{}/right", "--data", "{}/model.keras"), "must be the model"),
        ((*CHECK, "--labels", "{}/data.npz"), "must be outputs: 'y'"),
        ((*CHECK, "--rtol", "-1"), "rtol must be a finite number"),
        ((*CHECK, "--rtol", "much"), "invalid float"),
        ((*CHECK, "--json", "{}/nowhere/r.json"), "nowhere does not exist"),
        ((*CHECK, "--html", "{}"), "is a folder"),
        ((*CHECK, "--json", os.devnull), "null is a device"),
        ((*CHECK, "--lengths", "99999999999"), "lengths"),
        (("inspect", os.devnull), "null is not a file"),
        (("inspect", "x" * 300), "x cannot be read: File name too long"),
        (("check", "{}/model.keras", "x" * 300, "--data", "{}/data.npz"), "File name too long"),
        (("export", "{}/model.keras", "--to", "{}/caf\udce9"), "caf\\udce9 is not UTF-8"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(run, folder, arguments, message):
    before = sorted(folder.iterdir())
    assert message in refused(run(*arguments))
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.zeros((4, 3, 3))}, "must be the model's inputs: 'x'"),
        ({"x": np.zeros((4, 3, 2))}, "Received shape (4, 3, 2)"),
        ({"x": np.array([[["a"] * 3] * 3] * 4)}, "takes float32"),
        ({"x": np.array([None, 1], dtype=object)}, "cannot be read"),
    ],
)
def test_wrong_data_are_refused_and_nothing_is_written(run, tmp_path, arrays, message):
    np.savez(tmp_path / "wrong.npz", **arrays)
    arguments = ("--data", tmp_path / "wrong.npz", "--json", tmp_path / "r.json")
    assert message in refused(run("check", "{}/model.keras", "{}/right", *arguments))
    assert not (tmp_path / "r.json").exists()


def test_an_error_of_a_layer_is_one_line_with_file_and_line(run, tmp_path):
    """The status is 2 for any exception, because 1 means a failed check."""
    inputs = keras.Input((3,), name="x")
    keras.Model(inputs, Broken()(inputs)).save(tmp_path / "m.keras")
    message = refused(run("export", tmp_path / "m.keras", "--to", tmp_path / "out"))
    assert re.search(r"ZeroDivisionError: .* by zero \(.*test_cli.py, \d+\)", message)
    assert not (tmp_path / "out").exists()


def test_inspect_refuses_a_model_that_is_not_built(run, tmp_path):
    with pytest.warns(UserWarning, match="not yet been built"):
        keras.Sequential([keras.layers.Dense(2)]).save(tmp_path / "m.keras")
    assert "Build it: let it begin with keras.Input" in refused(
        run("inspect", tmp_path / "m.keras")
    )


def test_a_broken_link_as_the_folder_of_an_export_is_refused(run, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    message = refused(run("export", "{}/model.keras", "--to", tmp_path / "out"))
    assert "out is a link to" in message
    assert "which does not exist" in message


def test_an_unregistered_layer_is_named(run, tmp_path):
    keras.Sequential([keras.Input((3,)), Shift()]).save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as saved:
        entries = {name: saved.read(name) for name in saved.namelist()}
    entries["config.json"] = entries["config.json"].replace(b"Shift", b"Unknown")
    with zipfile.ZipFile(tmp_path / "unknown.keras", "w") as changed:
        for name, content in entries.items():
            changed.writestr(name, content)
    message = refused(run("inspect", tmp_path / "unknown.keras"))
    assert "Unknown is not registered" in message


class TheirConstraint(keras.constraints.Constraint):
    def __call__(self, w):
        return w


class TheirRegularizer(keras.regularizers.Regularizer):
    def __call__(self, w):
        return 0.0

    def get_config(self):
        return {}


class TheirInitializer(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return keras.ops.ones(shape, dtype)


def their_activation(x):
    return x


@pytest.mark.parametrize(
    ("argument", "theirs"),
    [
        ("kernel_constraint", TheirConstraint),
        ("kernel_regularizer", TheirRegularizer),
        ("kernel_initializer", TheirInitializer),
        ("activation", their_activation),
    ],
)
def test_an_unregistered_object_is_named_with_the_import_option(
    run, tmp_path, monkeypatch, argument, theirs
):
    given = theirs if argument == "activation" else theirs()
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, **{argument: given})]).save(
        tmp_path / "m.keras"
    )
    message = refused(run("inspect", tmp_path / "m.keras"))
    assert f"{theirs.__name__} is not registered" in message
    assert "keras-norm --import MODULE COMMAND" in message
    # What the message says to do.
    (name,) = re.findall(r"sets keras\.saving\.get_custom_objects\(\)\['(\w+)'\]", message)
    monkeypatch.setitem(keras.saving.get_custom_objects(), name, theirs)
    assert run("inspect", tmp_path / "m.keras")[0] == 0


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
@pytest.mark.parametrize(
    "layer",
    [keras.layers.Lambda(lambda x: x), keras.layers.Dense(2, activation=lambda x: x)],
    ids=["layer", "activation"],
)
def test_a_lambda_is_refused_with_two_alternatives(run, tmp_path, layer):
    keras.Sequential([keras.Input((3,)), layer]).save(tmp_path / "lambda.keras")
    message = refused(run("inspect", tmp_path / "lambda.keras"))
    assert "safe mode" in message
    assert "keras-norm --import MODULE COMMAND" in message
    assert "keras_norm.export.export_saved_model(model, path)" in message
    assert "safe_mode=False" not in message


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
    ):
        assert "has one array, but the model has 2 inputs" in refused(run(*command))


def test_missing_files_and_unknown_formats_are_reported_before_the_package_is_imported(folder):
    """The import of TensorFlow takes seconds."""
    commands = [
        ("inspect", "{}/nowhere.keras"),
        ("inspect", "{}/data.npy"),
        ("check", "{}/model.keras", "{}/nowhere", "--data", "{}/data.npz"),
        ("check", "{}/model.keras", "{}/right", "--data", "{}/nowhere.npz"),
        (*CHECK, "--labels", "{}/nowhere.npz"),
        ("compare", "{}/right", "{}/nowhere", "--data", "{}/data.npz"),
        ("compare", "{}/nowhere.keras", "{}/right", "--data", "{}/data.npz"),
        ("recalibrate", "{}/model.keras", "--data", "{}/right", "--to", "{}/new.keras"),
        ("export", "{}/model.keras", "--to", "{}/q", "--samples", "{}/right/saved_model.pb"),
        ("export", "{}/model.keras", "--to", "{}/q", "--format", "h5"),
    ]
    arguments = [[argument.format(folder) for argument in command] for command in commands]
    script = (
        "import sys\n"
        "sys.modules['keras'] = sys.modules['tensorflow'] = None\n"
        "import keras_norm_cli\n"
        f"print([keras_norm_cli.main(arguments) for arguments in {arguments}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [str([2] * len(commands))], done.stderr


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
    with zipfile.ZipFile(tmp_path / "m.keras") as saved:
        entries = {name: saved.read(name) for name in saved.namelist()}
    entries["config.json"] = entries["config.json"].replace(b"LayerNormalization", b"Unknown")
    entries["config.json"] = entries["config.json"].replace(
        b"Unknown", json.dumps(NAME)[1:-1].encode()
    )
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as changed:
        for name, content in entries.items():
            changed.writestr(name, content)
    said = refused(run("inspect", tmp_path / "m.keras"))
    assert all(character.isprintable() for character in said.replace("\n", ""))


def test_a_missing_report_package_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    message = refused(run(*CHECK, "--html", tmp_path / "r.html"))
    assert ".[report]" in message
    assert list(tmp_path.iterdir()) == []


def test_help_names_the_commands(run, capfd):
    with pytest.raises(SystemExit) as ended:
        run("--help")
    assert ended.value.code == 0
    assert "check" in capfd.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_keras_swallows_is_raised_again(run, monkeypatch, number):
    def swallow_interrupt(args):
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        for _ in range(400):  # no one long sleep: an interrupt of our own does not end that
            time.sleep(0.01)

    monkeypatch.setattr(commands, "inspect", swallow_interrupt)
    before = signal.getsignal(number)
    assert run("inspect", "{}/model.keras") == (130, "", "keras-norm: interrupted\n")
    assert signal.getsignal(number) == before


def test_the_cleanup_after_an_interrupt_is_not_interrupted(run, monkeypatch):
    cleaned = []

    def clean_up(args):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            time.sleep(5 * interrupts.RAISE_AGAIN)
            signal.raise_signal(signal.SIGINT)
            cleaned.append(True)

    monkeypatch.setattr(commands, "inspect", clean_up)
    assert run("inspect", "{}/model.keras") == (130, "", "keras-norm: interrupted\n")
    assert cleaned


def test_a_cleanup_that_does_not_end_is_interrupted(run, monkeypatch):
    ended_by_itself = []

    def hangs(args):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(400):
                time.sleep(0.01)
            ended_by_itself.append(True)

    monkeypatch.setattr(interrupts, "CLEANUP", 0.3)
    monkeypatch.setattr(commands, "inspect", hangs)
    assert run("inspect", "{}/model.keras") == (130, "", "keras-norm: interrupted\n")
    assert not ended_by_itself


@pytest.mark.parametrize("error", [SystemError, TypeError, ValueError])
def test_an_exception_after_an_interrupt_is_reported_as_the_interrupt(run, monkeypatch, error):
    def raise_another_error(args):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error("None is no shape") from None

    monkeypatch.setattr(commands, "inspect", raise_another_error)
    assert run("inspect", "{}/model.keras") == (130, "", "keras-norm: interrupted\n")


def test_recalibrate_writes_a_model_with_the_statistics_of_the_data(run, folder, tmp_path):
    rnn = keras_norm.BatchNormSimpleRNN(4, max_timesteps=5, name="rnn")
    keras.Sequential([keras.Input((None, 3), name="x"), rnn]).save(tmp_path / "old.keras")
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


def test_a_report_never_overwrites_an_input_file(run, folder):
    err = refused(run(*CHECK, "--json", "{}/model.keras"))
    assert "would overwrite" in err
    assert zipfile.is_zipfile(folder / "model.keras")


def test_a_report_is_not_written_into_a_checked_saved_model(run, folder):
    before = (folder / "right/saved_model.pb").read_bytes()
    message = refused(run(*CHECK, "--json", "{}/right/saved_model.pb"))
    assert "A report would overwrite" in message
    assert (folder / "right/saved_model.pb").read_bytes() == before


def test_reports_name_a_file_of_data_whose_name_is_not_utf_8(run, folder, tmp_path):
    for k in range(2):
        data = tmp_path / os.fsdecode(b"caf\xe9%d.npz" % k)
        data.write_bytes((folder / "data.npz").read_bytes())
    files = sorted(tmp_path.iterdir())
    model = keras.saving.load_model(folder / "model.keras")
    model.set_weights([-w for w in model.get_weights()])  # all predictions change
    model.save(tmp_path / "new.keras")
    reports = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    arguments = ("compare", "{}/model.keras", tmp_path / "new.keras", "--data", *files, *reports)
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert r"caf\udce9" in out
    assert r"caf\udce9" in (tmp_path / "r.html").read_text()


def test_a_damaged_archive_of_data_is_one_line(run, folder, tmp_path):
    content = bytearray((folder / "data.npz").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"damaged!"
    (tmp_path / "bad.npz").write_bytes(content)
    err = refused(run("check", "{}/model.keras", "{}/right", "--data", tmp_path / "bad.npz"))
    assert "cannot be read" in err


def test_a_truncated_tflite_file_is_one_line(run, tmp_path):
    (tmp_path / "cut.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + b"\x00" * 20)
    arguments = ("check", "{}/model.keras", tmp_path / "cut.tflite", "--data", "{}/data.npz")
    assert "cut.tflite" in refused(run(*arguments))


def test_a_report_can_be_read_by_others(run, tmp_path):
    run(*CHECK, "--json", tmp_path / "r.json")
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "r.json").stat().st_mode == plain.stat().st_mode


# What a second run, and a user's own layers, need ------------------------------------------------


def test_a_second_run_needs_force_or_another_version(run, tmp_path):
    export = ("export", "{}/model.keras", "--to", tmp_path / "out", "--no-step")
    assert run(*export)[0] == 0
    assert "--force" in refused(run(*export))
    assert run(*export, "--force")[0] == 0
    for version in (1, 2):
        versioned = ("--to", tmp_path / "versions", "--no-step", *BOTH, "--version", version)
        assert run("export", "{}/model.keras", *versioned)[0] == 0
    assert {p.name for p in (tmp_path / "versions").iterdir()} == {
        "saved_model",
        *(f"model-{version}.tflite{part}" for version in (1, 2) for part in ("", ".golden.npz")),
    }


def test_an_existing_version_and_its_tflite_file_are_not_changed(run, tmp_path):
    (tmp_path / "saved_model" / "1").mkdir(parents=True)
    (tmp_path / "model-1.tflite").write_text("theirs")
    export = ("export", "{}/model.keras", "--to", tmp_path, "--version", 1, *BOTH, "--force")
    assert "higher --version" in refused(run(*export))
    assert (tmp_path / "model-1.tflite").read_text() == "theirs"


def test_import_registers_the_layers_of_a_users_module(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pathlib.Path("their_layers.py").write_text(
        "import keras\n\n\n"
        "@keras.saving.register_keras_serializable(package='theirs')\n"
        "class Theirs(keras.layers.Layer):\n    def call(self, x):\n        return x\n"
    )
    sys.path.insert(0, str(tmp_path))
    import their_layers

    keras.Sequential([keras.Input((3,)), their_layers.Theirs()]).save("m.keras")
    keras.saving.get_custom_objects().pop("theirs>Theirs")
    del sys.modules["their_layers"]
    assert "keras-norm --import MODULE" in refused(run("inspect", "m.keras"))
    status, _, err = run("--import", "their_layers", "inspect", "m.keras")
    assert (status, err) == (0, "")
    assert "no_such_module" in refused(run("--import", "no_such_module", "inspect", "m.keras"))
    for path in ("./their_layers.py", ".their_layers", "my-layers"):
        message = refused(run("--import", path, "inspect", "m.keras"))
        assert (
            f"--import must be the name of a module, such as my.layers; received {path}" in message
        )
    (tmp_path / "broken_layers.py").write_text("x = 1\ny = 1 / 0\n")
    message = refused(run("--import", "broken_layers", "inspect", "m.keras"))
    assert "--import broken_layers: ZeroDivisionError: division by zero" in message
    assert "broken_layers.py, 2)" in message
    (tmp_path / "ending_layers.py").write_text("import sys\nsys.exit(0)\n")
    message = refused(run("--import", "ending_layers", "inspect", "m.keras"))
    assert "--import ending_layers: SystemExit: 0" in message


def test_warnings_are_printed_and_native_logs_are_hidden(capfd):
    with keras_norm_cli.quiet_native_logs():
        logging.getLogger("keras_norm.export").warning("the layers\n\x1b[2K of samples={name: x}")
        os.write(2, b"native")
    assert capfd.readouterr().err == "keras-norm: the layers \\x1b[2K of --samples FILE.npz\n"


def test_the_version_is_shown(run, capfd):
    with pytest.raises(SystemExit) as ended:
        run("--version")
    assert ended.value.code == 0
    assert capfd.readouterr().out == f"keras-norm {keras_norm.__version__}\n"


def test_data_larger_than_the_memory_are_refused(run, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4000000000000), }"
    header += b" " * (117 - len(header)) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as file:
        file.writestr("x.npy", npy)
    message = refused(run("check", "{}/model.keras", "{}/right", "--data", tmp_path / "huge.npz"))
    assert "cannot be read" in message
