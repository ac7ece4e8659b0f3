"""What the studies share: their command line, data, training, results, plots and exports."""
