"""Shared code of the studies: data, training, results, verdicts and plots."""
