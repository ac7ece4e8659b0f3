"""Interrupts, logs, help and version of `keras-norm`."""

import contextlib
import logging
import os
import platform
import signal
import time
import warnings

import keras
import numpy as np
import pytest

import keras_norm
import keras_norm_cli
from keras_norm_cli import commands, interrupts

INTERRUPTED = (130, "", "keras-norm: interrupted\n")


def sleep_until_interrupted():
    """Sleep 4 seconds in many calls: an interrupt of our own does not end one long sleep."""
    for _ in range(400):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_keras_swallows_is_raised_again(run, monkeypatch, number):
    def swallow_interrupt(args):
        with contextlib.suppress(BaseException):
            signal.raise_signal(number)
        sleep_until_interrupted()

    monkeypatch.setattr(commands, "inspect", swallow_interrupt)
    before = signal.getsignal(number)
    assert run("inspect", "{}/model.keras") == INTERRUPTED
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
    assert run("inspect", "{}/model.keras") == INTERRUPTED
    assert cleaned


def test_a_cleanup_that_does_not_end_is_interrupted(run, monkeypatch):
    ended_by_itself = []

    def hangs(args):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            sleep_until_interrupted()
            ended_by_itself.append(True)

    monkeypatch.setattr(interrupts, "CLEANUP", 0.3)
    monkeypatch.setattr(commands, "inspect", hangs)
    assert run("inspect", "{}/model.keras") == INTERRUPTED
    assert not ended_by_itself


@pytest.mark.parametrize("error", [SystemError, TypeError, ValueError])
def test_an_exception_after_an_interrupt_is_reported_as_the_interrupt(run, monkeypatch, error):
    def raise_another_error(args):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error("None is no shape") from None

    monkeypatch.setattr(commands, "inspect", raise_another_error)
    assert run("inspect", "{}/model.keras") == INTERRUPTED


def test_warnings_are_printed_and_native_logs_and_warnings_of_keras_are_hidden(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with keras_norm_cli.quiet_native_logs():
            logging.getLogger("keras_norm.export").warning("a\n\x1b[2K of samples={name: x}")
            os.write(2, b"native")
            warnings.warn_explicit("a static\nbatch", UserWarning, "keras_norm_cli/commands.py", 1)
            warnings.warn_explicit("of Keras", UserWarning, "keras/layers.py", 1)
    expected = ["keras-norm: a \\x1b[2K of --samples FILE.npz", "keras-norm: a static batch"]
    assert capfd.readouterr().err.splitlines() == expected


def test_the_help_and_the_versions_of_the_package_and_its_requirements_are_shown(run, capfd):
    shown = []
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            run(option)
        assert ended.value.code == 0
        shown.append(capfd.readouterr().out)
    assert "check" in shown[0]
    package, python, requirements = shown[1].splitlines()
    assert package == f"keras-norm {keras_norm.__version__}"
    assert python.startswith(f"Python {platform.python_version()}, ")
    assert {f"keras {keras.__version__}", f"numpy {np.__version__}"} < set(requirements.split(", "))
