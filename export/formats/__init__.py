"""Write, read and run the exported formats."""
