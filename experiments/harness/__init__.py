"""What the studies share: data, training, the runs that ended, verdicts and pictures."""
