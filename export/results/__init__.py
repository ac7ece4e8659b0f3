"""The results of a check, as dataclasses without behavior of their own."""
