"""Example programs to copy: `python -m examples.NAME --help`."""

from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow prints C++ messages when it starts without a GPU
    import tensorflow as tf

    import keras_norm.export  # noqa: F401

    tf.config.list_logical_devices()
