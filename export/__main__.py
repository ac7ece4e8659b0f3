"""Run the command `keras-norm` as `python -m keras_norm.export`."""

import sys

from keras_norm_cli import main

if __name__ == "__main__":
    sys.exit(main())
