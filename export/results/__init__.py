"""What a check found: plain data."""

from keras_norm.export.results.artifact import (
    ArtifactResult,
    Cost,
    Failure,
    Finding,
    FirstDifference,
    Metric,
    Property,
)
from keras_norm.export.results.comparison import (
    DifferenceProfile,
    OutputComparison,
    OutputResult,
    difference,
    largest_known,
)
from keras_norm.export.results.gap import (
    LARGE_DISTANCE,
    LARGE_LOG_RATIO,
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.export.results.outcome import Outcome

__all__ = [
    "LARGE_DISTANCE",
    "LARGE_LOG_RATIO",
    "ArtifactResult",
    "Cost",
    "DifferenceProfile",
    "Failure",
    "Finding",
    "FirstDifference",
    "LayerStatistics",
    "Metric",
    "MetricGap",
    "Outcome",
    "OutputComparison",
    "OutputGap",
    "OutputResult",
    "Property",
    "TrainInferenceGap",
    "difference",
    "largest_known",
]
