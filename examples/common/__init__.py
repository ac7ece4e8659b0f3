"""What the examples share: their command line, data, training, results, plots and exports."""
