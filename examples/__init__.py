"""Example programs to run and to copy; `python -m examples.NAME --help` lists their options."""

from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # hides the messages of TensorFlow about a missing GPU
    import tensorflow as tf

    import keras_norm.export  # noqa: F401

    tf.config.list_logical_devices()
