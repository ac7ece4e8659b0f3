"""Pure tensor functions: no layers, no variables, no state."""
