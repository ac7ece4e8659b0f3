"""The report of a check as an object, as text, as JSON and as HTML."""
