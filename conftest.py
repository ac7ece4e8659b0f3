"""Let tests run from a plain checkout, where `export/` is not yet `keras_norm.export`."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

ROOT = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT))

import keras_norm  # noqa: E402

if str(ROOT) not in keras_norm.__path__:
    keras_norm.__path__.append(str(ROOT))
