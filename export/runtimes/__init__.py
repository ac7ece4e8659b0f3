"""Run exported files in child processes: dict of input arrays -> dict of output arrays."""
