"""What a check found: as an object, and as text, JSON and HTML."""
