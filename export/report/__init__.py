"""What a check found: as an object, and as text, JSON and HTML."""

from keras_norm.export.report.report import (
    ArtifactResult,
    Failure,
    Finding,
    OutputResult,
    Report,
)

__all__ = ["ArtifactResult", "Failure", "Finding", "OutputResult", "Report"]
