"""Scripts that run an exported file in a process of its own; started by path, not imported."""
