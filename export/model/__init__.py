"""Analyze and run a Keras model for export: masks, reference outputs, single timesteps."""
