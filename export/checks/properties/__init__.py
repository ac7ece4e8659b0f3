"""The properties that a check tests, such as row independence, one file for each property."""
