"""The format SavedModel: exporter, file, runner and worker scripts."""
