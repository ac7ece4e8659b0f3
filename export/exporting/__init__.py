"""Write a format: trace, convert, run, compare, and only then move into place."""
