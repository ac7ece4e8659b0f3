"""Derive from a Keras model: masks, depth, a single-step model, reference outputs."""
