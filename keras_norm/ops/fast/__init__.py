"""The fast sequence form: loops under XLA with a backward pass written by hand.

Needs the TensorFlow backend. `sequence.fast_sequence` is the way in.
"""
