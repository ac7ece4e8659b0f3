"""What a check found: plain data."""

from keras_norm.export.results.artifact import (
    ArtifactResult,
    Cost,
    Failure,
    Finding,
    FirstDifference,
    Metric,
    Property,
    Tally,
)
from keras_norm.export.results.comparison import (
    DifferenceProfile,
    Element,
    Measurement,
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
from keras_norm.export.results.partial import (
    BatchStatistics,
    Measured,
    ModeDifference,
    Partial,
    PartialGap,
    Spread,
)

__all__ = [
    "LARGE_DISTANCE",
    "LARGE_LOG_RATIO",
    "ArtifactResult",
    "BatchStatistics",
    "Cost",
    "DifferenceProfile",
    "Element",
    "Failure",
    "Finding",
    "FirstDifference",
    "LayerStatistics",
    "Measured",
    "Measurement",
    "Metric",
    "MetricGap",
    "ModeDifference",
    "Outcome",
    "OutputComparison",
    "OutputGap",
    "OutputResult",
    "Partial",
    "PartialGap",
    "Property",
    "Spread",
    "Tally",
    "TrainInferenceGap",
    "difference",
    "largest_known",
]
