"""Programs to copy, each by itself: `python -m examples.NAME --help`."""
