"""Convert models of Keras layers to models of normalized layers, and back."""
