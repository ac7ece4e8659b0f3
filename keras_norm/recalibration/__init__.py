"""Recompute the moving statistics of batch normalizations from data."""
