"""What goes along with an exported file, for `keras-norm verify` (`keras_norm_verify`)."""

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
from keras_norm.export.model.reference import Reference, make_reference
from keras_norm.export.model.single_step import Step
from keras_norm.export.package_versions import versions
from keras_norm.export.runtimes.runner import Arrays
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm_verify import BESIDE, IN_FOLDER, INSIDE, Proof, ProvenCase, hashes

logger = logging.getLogger("keras_norm.export")


def make_proof(
    reference: Reference,
    step: Step | None = None,
    *,
    alone: bool = False,
    quantize: str | None = None,
    answers: Mapping[str, Sequence[Arrays]] | None = None,
) -> Proof:
    """The cases that a file was verified on, with the outputs that it is to give anywhere.

    These are the Keras model's. Those of a file in eight bits are its own, as the exporter saw
    them: what they are worth beside the model is known then, and they have to stay what they are.
    So are integers of one in float16, as a rounded weight may turn an argmax.

    Args:
        reference: what the Keras model gives.
        step: the model timestep by timestep, where the file has a signature `step`; one case is run
            so too.
        alone: whether the file has no other signature: then all cases are, in the batch that it
            has.
        quantize: how the file is quantized, as for `export_tflite`.
        answers: what each signature of the file gave for the cases.
    """
    cases, in_eight_bits = reference.cases, quantize in EIGHT_BITS

    def proven(k: int, signature: str) -> ProvenCase:
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
        return ProvenCase(case.name, signature, case.inputs, expected, atol)

    def streamed(k: int, stream: Step) -> ProvenCase:
        whole, count = proven(k, STEP), len(cases[k][0].rows)
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
    proven_cases = [] if alone else [proven(k, SERVING_DEFAULT) for k in every]
    if step is not None:
        proven_cases += [streamed(k, step) for k in (every if alone else [1])]
    name = reference.model.name
    does = f'what the Keras model "{name}" does'
    if in_eight_bits:
        does = "what it did where it was written"
    return Proof(name, does, versions(), {}, tuple(proven_cases))


def find_reference(model: keras.Model, data: Any = None) -> Reference | None:
    """What a model gives; None where it cannot be run, and a warning says why.

    A model of texts cannot be run, and is no reason for a warning: it is logged at the level INFO.

    Args:
        model: a functional or a built sequential model.
        data: real samples, as for `verification_cases`, or None.

    Raises:
        ValueError: there are samples, and they do not fit, or the model refuses them.
    """
    try:
        return make_reference(model, data)
    except ValueError as error:
        if data is not None and not isinstance(error, TextError):
            raise
        level = logging.INFO if isinstance(error, TextError) else logging.WARNING
        message = 'the file of model "%s" is not run, and has no proof: %s'
        logger.log(level, message, model.name, error)
        return None


def write_proof(path: pathlib.Path, proof: Proof, inside: bool = False) -> None:
    """Write a proof where `keras_norm_verify.read_proof` looks for it.

    Args:
        path: the SavedModel's folder, or the TFLite file.
        proof: of `make_proof`; the hashes are added.
        inside: whether it goes into the TFLite file, at its end, as metadata do, which readers of
            the format pass over.
    """
    content = dataclasses.replace(proof, hashes=hashes(path)).to_bytes()
    if path.is_dir():
        (path / IN_FOLDER).parent.mkdir(exist_ok=True)
        (path / IN_FOLDER).write_bytes(content)
    elif inside:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(INSIDE, content)
    else:
        path.with_name(path.name + BESIDE).write_bytes(content)
