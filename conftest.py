"""Let tests run from a checkout, without an installation."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# The processes of pytest share the cores: with a thread for each core, they wait for each other.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

sys.path.insert(0, str(pathlib.Path(__file__).parent))
