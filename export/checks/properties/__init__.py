"""The properties that the check tests, one file for each, and their registry."""
