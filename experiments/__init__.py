"""Studies of normalization in sequence models: run `python -m experiments --help`."""

from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it starts and finds no GPU
    import tensorflow as tf

    import keras_norm.export  # noqa: F401

    tf.config.list_logical_devices()
