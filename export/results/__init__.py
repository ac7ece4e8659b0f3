"""Dataclasses for the results of a check."""
