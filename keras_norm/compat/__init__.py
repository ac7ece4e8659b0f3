"""Weights of other packages."""
