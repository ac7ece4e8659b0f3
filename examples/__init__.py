"""Programs that train sequence models on real data: `python -m examples.NAME --help`."""

from keras_norm_cli import quiet_native_logs

with quiet_native_logs():  # TensorFlow writes to the terminal when it is first imported
    import keras_norm.export  # noqa: F401
