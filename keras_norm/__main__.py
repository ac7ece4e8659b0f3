"""`python -m keras_norm` is the command `keras-norm`."""

import sys

from keras_norm_cli import main

sys.exit(main())
