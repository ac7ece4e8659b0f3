"""Dataclasses for the results of checking exported files."""
