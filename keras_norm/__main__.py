"""Run the command `keras-norm` as `python -m keras_norm`."""

import sys

from keras_norm_cli import main

sys.exit(main())
