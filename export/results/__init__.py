"""What a check found: plain data."""
