"""Measure the layers against Keras' own, and against their matrix products alone.

python -m benchmarks run      # measure, print tables, write benchmarks/results.json
python -m benchmarks table    # tables for the README from that file
python -m benchmarks plot     # docs/benchmark.png from that file
"""
