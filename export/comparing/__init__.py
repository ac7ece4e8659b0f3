"""Inputs to compare on, the comparison, and the properties that are compared."""
