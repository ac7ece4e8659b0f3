"""Pure functions of tensors, without layers, variables or state."""
