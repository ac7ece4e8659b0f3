"""Reports of `check` and `compare_versions`, printed as text or written as JSON and HTML."""
