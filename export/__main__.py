"""`python -m keras_norm.export` is the command `keras-norm`."""

import sys

from keras_norm_cli import main

if __name__ == "__main__":
    sys.exit(main())
