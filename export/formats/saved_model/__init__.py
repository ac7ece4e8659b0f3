"""Write, read and run SavedModels."""
