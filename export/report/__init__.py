"""What a check found: as an object, and as text, JSON and HTML."""

from keras_norm.export.report.report import Report

__all__ = ["Report"]
