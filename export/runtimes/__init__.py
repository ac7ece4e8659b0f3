"""Run artifacts in child processes, as functions from named arrays to named arrays."""
