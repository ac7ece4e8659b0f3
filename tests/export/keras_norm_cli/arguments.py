"""Arguments of commands, the result of a refused command, and a changed .keras file."""

import zipfile


def refused(result):
    """Return the line that a refused command printed on stderr."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("keras-norm: ")
    assert err.count("\n") == 1
    return err


def replace_in_config(path, old, new, target):
    """Write a copy of a .keras file with other bytes in its config."""
    with zipfile.ZipFile(path) as saved, zipfile.ZipFile(target, "w") as changed:
        for name in saved.namelist():
            content = saved.read(name)
            changed.writestr(name, content.replace(old, new) if name == "config.json" else content)


BOTH = ("--format", "saved_model", "tflite")
CHECK = ("check", "{}/model.keras", "{}/right", "--data", "{}/data.npz")
