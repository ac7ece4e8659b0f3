"""The recurrence with a custom gradient: pure functions, and one adapter for each backend."""
