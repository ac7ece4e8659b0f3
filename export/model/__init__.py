"""Derive masks, depth, a single-step model and reference outputs from a Keras model."""
