"""Compare the speed of the layers with Keras' layers and with bare matrix products, on the CPU.

python -m benchmarks run      # measure, print tables, write benchmarks/results.json
python -m benchmarks table    # tables of docs/guides/benchmarks.md from that file
python -m benchmarks plot     # docs/pictures/benchmark.png from that file
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before TensorFlow is imported
