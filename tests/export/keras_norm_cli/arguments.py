"""Arguments of commands, and the result of a refused command."""


def refused(result):
    """Return the line that a refused command printed on stderr."""
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("keras-norm: ")
    assert err.count("\n") == 1
    return err


EXPORT = ("export", "{}/model.keras", "--to", "{}/q")


TFLITE = (*EXPORT, "--format", "tflite")


BOTH = ("--format", "saved_model", "tflite")


CHECK = ("check", "{}/model.keras", "{}/right", "--data", "{}/data.npz")
