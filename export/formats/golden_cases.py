"""Make golden cases, and store them with an artifact for `keras-norm verify`.

Golden cases are test inputs and their expected outputs. `export/golden_cases` runs them.
"""

import dataclasses
import logging
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_norm.export.compare.element_differences import largest
from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
from keras_norm.export.compare.tolerance import TOLERANCES
from keras_norm.export.errors import TextError
from keras_norm.export.golden_cases.artifact_files import FILE_NAME, golden_cases_path, hash_files
from keras_norm.export.golden_cases.golden_cases import GoldenCase, GoldenCases
from keras_norm.export.model.reference import Reference, make_reference
from keras_norm.export.model.single_step import Step
from keras_norm.export.package_versions import versions
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.signature import SERVING_DEFAULT, STEP

logger = logging.getLogger("keras_norm.export")


def make_golden_cases(
    reference: Reference,
    step: Step | None = None,
    *,
    alone: bool = False,
    quantize: str | None = None,
    answers: Mapping[str, Sequence[Arrays]] | None = None,
) -> GoldenCases:
    """Make the golden cases of an artifact from the test inputs on which it was verified.

    The expected outputs are the Keras model's, with two exceptions:

    - For a file in eight bits the expected outputs are the file's own. The exporter has already
      compared them with the Keras model's, so a verification checks that they do not change.
    - For a file in float16 the expected integer outputs are the file's own: a rounded weight can
      change an argmax.

    Args:
        reference: the test inputs, with the Keras model's outputs.
        step: the single-step model, or None for a file without a step signature. One golden case
            then runs timestep by timestep.
        alone: whether the file has the step signature only. Then all golden cases run timestep by
            timestep, with the batch size of the file.
        quantize: quantization of the file, as for `export_tflite`.
        answers: signature -> the file's outputs for each test input.
    """
    cases, in_eight_bits = reference.cases, quantize in EIGHT_BITS

    def golden_case(k: int, signature: str) -> GoldenCase:
        case, expected = cases[k]
        atol = reference.tolerance(k, quantize).at_most(expected)
        if quantize and answers:
            own = answers[signature][k]
            expected = {
                name: own[name] if in_eight_bits or y.dtype.kind != "f" else y
                for name, y in expected.items()
            }
            if in_eight_bits:
                atol = {name: TOLERANCES["int8"] * largest([y]) for name, y in expected.items()}
        return GoldenCase(case.name, signature, case.inputs, expected, atol)

    def streamed(k: int, stream: Step) -> GoldenCase:
        whole, count = golden_case(k, STEP), len(cases[k][0].rows)
        size = len(cases[0][0].rows) if alone else count
        return dataclasses.replace(
            whole,
            name=f"{whole.name}, timestep by timestep" + f", row 0 of {count}" * (size < count),
            inputs={n: a[:size] for n, a in whole.inputs.items()} | stream.initial_states(size),
            expected={n: a[:size] for n, a in whole.expected.items()},
            sequences=tuple(stream.sequences),
            states=tuple(stream.states),
            sequence_outputs=tuple(stream.sequence_outputs),
        )

    every = range(len(cases))
    found = [] if alone else [golden_case(k, SERVING_DEFAULT) for k in every]
    if step is not None:
        found += [streamed(k, step) for k in (every if alone else [1])]
    name = reference.model.name
    does = f'the outputs of the Keras model "{name}"'
    if in_eight_bits:
        does = "its outputs at export"
    return GoldenCases(name, does, versions(), {}, tuple(found))


def find_reference(model: keras.Model, data: Any = None) -> Reference | None:
    """Run a model on test inputs and return its outputs; None if the model cannot be run.

    If the model cannot be run, a warning gives the reason. For a model with text inputs the reason
    is logged at the level INFO instead.

    Args:
        model: a functional or a built sequential model.
        data: real samples, as for `verification_cases`, or None.

    Raises:
        ValueError: `data` does not match the model's inputs, or the model fails on `data`.
    """
    try:
        return make_reference(model, data)
    except ValueError as error:
        if data is not None and not isinstance(error, TextError):
            raise
        level = logging.INFO if isinstance(error, TextError) else logging.WARNING
        message = 'the exporter did not run the file of model "%s" and wrote no golden cases: %s'
        logger.log(level, message, model.name, error)
        return None


def write_golden_cases(path: pathlib.Path, golden_cases: GoldenCases, inside: bool = False) -> None:
    """Write golden cases to the file that `read_golden_cases` reads.

    Args:
        path: the SavedModel's folder, or the exported file.
        golden_cases: from `make_golden_cases`. This function adds the hashes of the artifact.
        inside: whether to append the golden cases to the TFLite file, as for TFLite metadata.
            TFLite readers ignore them there.
    """
    content = dataclasses.replace(golden_cases, hashes=hash_files(path)).to_bytes()
    if inside:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(FILE_NAME, content)
        return
    file = golden_cases_path(path)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
