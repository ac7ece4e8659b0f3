"""Training on TensorFlow: two loops and a gradient by hand, compiled by XLA.

`of_cell.run` is the way in.
"""
