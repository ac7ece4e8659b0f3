"""Small reports for the tests of their text, JSON and HTML."""

import dataclasses
import io

import numpy as np
import rich.console

from keras_norm.export.compare.output_differences import profile_differences
from keras_norm.export.report.report import Report
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.export.results.gap_result import LayerStatistics, OutputGap, TrainInferenceGap
from keras_norm.export.results.output_comparison import Element, ErrorStatistics, OutputResult
from tests.export.compared import compare

RNG = np.random.default_rng(0)
EXPECTED = np.zeros((2, 3, 4))


def artifact(name, actual, **changes):
    (comparison,) = compare({"sequence": EXPECTED}, {"sequence": actual}, 1e-5, 1e-5)
    output = OutputResult(
        "sequence", ("batch 2, length 3",), (comparison,), profile_differences(EXPECTED, actual)
    )
    properties = (PropertyResult("row independence", "pass", ""), PropertyResult("ops", "pass", ""))
    result = ArtifactResult(name, name, "float32", 1e-5, 1e-5, (output,), properties)
    return dataclasses.replace(result, **changes)


def quantized(name, path=None, **errors):
    """Return the result of a file in 8 bits within its limit, with these error statistics."""
    (output,) = artifact(name, EXPECTED + 0.25).outputs
    comparisons = tuple(
        dataclasses.replace(c, passed=True, rms=0.1, atol=0.5, used=0.2) for c in output.comparisons
    )
    if "rms" in errors:
        errors["worst"] = Element((("sample", 1), ("timestep", 0), ("unit", 2)), 0.0, 0.25)
    output = dataclasses.replace(output, comparisons=comparisons, errors=ErrorStatistics(**errors))
    return artifact(name, EXPECTED, outputs=(output,), path=path or name, quantized=True)


def report_of(*artifacts, gap=None):
    own = ArtifactResult(
        "Keras model",
        "",
        "float32",
        1e-5,
        1e-5,
        properties=(
            PropertyResult("row independence", "pass", ""),
            PropertyResult("right padding", "not applicable", "no input is masked"),
        ),
    )
    layers = (
        LayerStatistics("lstm/cell/kernel_norm", 0.2, 0.1, (0.1, 0.3, None), 2, 3, "beyond"),
        LayerStatistics("bn", 2.5, 0.1, (2.5,), 1, 1, ""),
    )
    gap = gap or TrainInferenceGap(
        "large", "bn is far", (OutputGap("sequence", 0.5, 0.1, 1.0),), layers
    )
    return Report("digits", 20, own, artifacts, gap, ("length 1 left out",), (("keras", "3"),))


def printed(report, width=80):
    text = io.StringIO()
    report.print(rich.console.Console(file=text, width=width))
    return text.getvalue()
