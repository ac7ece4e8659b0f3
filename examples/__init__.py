"""Models that anyone can train, export and check: `python -m examples.NAME`."""
