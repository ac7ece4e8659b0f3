"""Write a Keras model as a TFLite file of builtin operations, and run it before it is used."""

import os
import pathlib
import re
import shutil
import tempfile
from typing import Any

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.converter_process import layers_of, start_converter
from keras_norm.export.formats.golden_cases import make_proof, write_proof
from keras_norm.export.formats.refusals import (
    refuse_half_precision,
    refuse_text,
    refuse_unfit,
    warn_of_fixed_batch,
)
from keras_norm.export.formats.saved_model.export_saved_model import write_saved_model
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.tflite.integer_ops import rewrite_for_integers
from keras_norm.export.formats.tflite.quantization import (
    INTEGERS,
    QUANTIZE,
    calibration_data,
    log_float32,
    read_representative,
    verify_useful,
)
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.formats.verify_file import verify_file
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.reference import make_reference
from keras_norm.export.model.step_signature import find_step
from keras_norm.export.optional_packages import require
from keras_norm.export.runtimes import worker_protocol as protocol
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.named_layers import named_layers
from keras_norm.ops.scan import exported_loops
from keras_norm_verify import BESIDE

LOOP_OPS = "TensorList"


def export_tflite(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    quantize: str | None = None,
    samples: Any = None,
    step: bool | None = None,
    proof: bool | str = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as a TFLite file, in inference mode.

    Its signatures are `serving_default`, the model on whole sequences, and `step`, one timestep of
    it from given states (`keras_norm.export.Step`); both read the same weights. With
    `signature="step"` it has the second alone, which needs no loop, and so in 8 bits too.

    The file needs TFLite's builtin operations only. Keras' recurrent layers are written as those of
    this package that compute the same (`model.layer_replacement`). Batch, time and every other
    size that the model leaves open stay open. It is converted in a child process, and moved
    into place only after it ran there, at two batch sizes and lengths at least, and gave what the
    Keras model gives.

    Args:
        model: a functional or a built sequential model.
        path: file to write, ending in ".tflite"; missing parent folders are made.
        signature: "step" for a file of one timestep alone, of one stream at a time where the model
            leaves the batch open; None for whole sequences.
        quantize: None keeps the weights in float32; "float16" stores them in half the size;
            "dynamic" in 8 bits, with activations quantised as they come; "int8" computes in 8 bits
            throughout, and "int16x8" with weights in 8 bits and activations in 16, both with inputs
            and outputs as in Keras. Over whole sequences these two take recurrences with
            `unroll=True` only. How far off 8 bits are depends on the model: on random inputs the
            file has to give finite numbers, on `samples` what is of use
            (`keras_norm.export.compare.quantization_tolerance`), by which
            `keras_norm.export.check` judges it too.
        samples: real ones, whole, as they will come: arrays by input name, or one array for a model
            with one input. The file is run on up to three of them, in place of random ones.
            "int8" and "int16x8" take the scales of activations from all of them, a few hundred; a
            step from the inputs and the states that occur while they stream through the model.
            "dynamic" is tested on them where they are given.
        step: whether there is a signature `step` beside the whole, as for `export_saved_model`.
            None decides by the model. "int8" and "int16x8" have no such signature, as samples of
            whole sequences have no states.
        proof: whether the cases that it was run on go along for `keras-norm verify`, in a file
            beside it of the same name and ".proof.npz"; or "inside" it, at its end, where readers
            of the format pass over them.
        overwrite: whether it takes the place of a file that stands there.

    Returns:
        The file written.

    Raises:
        FileExistsError: the file exists, and `overwrite` is False.
        OSError: it cannot be written: no permission, a full disk.
        UnsupportedOpError: TFLite lacks an operation; the message names it and the layers it is in.
        VerificationError: the file runs and computes something else than the model.
        ConversionError: TensorFlow's converter failed or died.
        RunnerError: the file was converted and does not run.
        StreamingError: a step is asked for, and the model cannot run timestep by timestep.
        ImportError: LiteRT is not installed.
        ValueError: the model has no fixed inputs, a weight that is NaN, an input of text, a
            stateful layer, or one that computes in float16 or bfloat16; "dynamic" comes without
            `samples` for a model with statistics of every timestep; "int8" or "int16x8" meets a
            loop, or has no `samples`; `signature`, `quantize` or `proof` is unknown; two of
            `signature`, `quantize` and `step` do not go together; `path` does not end in ".tflite".

    Example:
    ```python
    inputs = keras.Input((None, 8), name="rows")  # any batch, any length
    model = keras.Model(inputs, keras_norm.LayerNormLSTM(16)(inputs))
    export_tflite(model, "digits.tflite")
    ```
    """
    if quantize not in QUANTIZE:
        raise ValueError(
            'quantize must be None, "float16", "dynamic", "int8" or "int16x8"; '
            f"received {quantize!r}"
        )
    if signature not in (None, STEP):
        raise ValueError(
            f'signature must be "step", or None for whole sequences; received {signature!r}'
        )
    if proof not in (True, False, "inside"):
        raise ValueError(f'proof must be True, False or "inside"; received {proof!r}')
    target = pathlib.Path(path)
    if target.suffix != ".tflite":
        raise ValueError(f'the file name must end in ".tflite"; received {target}')
    require("tflite")
    refuse_text(model, "TFLite")
    refuse_unfit(model)
    warn_of_fixed_batch(model)
    # Its kernels compute in float32: most have no float16 form and none has bfloat16.
    refuse_half_precision(model, "TFLite", '; quantize="float16" stores them in half the size')
    _refuse_combination(signature, quantize, step)
    representative = read_representative(model, quantize, samples)
    if quantize == "dynamic" and representative is None:
        _refuse_untested_statistics(model)
    alone = signature == STEP
    wanted = step
    if step is None and quantize in INTEGERS:
        wanted = False
    # TensorFlow reads some characters of a path as a pattern, so it gets a path without any.
    with (
        staged(target, overwrite, beside=target.name + BESIDE) as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        with start_converter("tflite/convert_tflite.py", "TFLite") as converter:
            reference = make_reference(model, samples)
            saved_model = pathlib.Path(folder, "saved_model")
            converted = pathlib.Path(folder, "model.tflite")
            with portable_layers(model, one_lookup=alone), exported_loops("tflite"):
                stepper = find_step(model, alone or wanted, reference)
                write_saved_model(model, saved_model, stepper, alone=alone)
            if quantize in INTEGERS:
                _refuse_loops(model, saved_model, quantize)
                rewrite_for_integers(saved_model, INTEGERS[quantize])
            signatures = [SERVING_DEFAULT] * (not alone) + [STEP] * (stepper is not None)
            streamed = stepper if alone else None
            request: dict[str, Any] = {
                "saved_model": str(saved_model),
                "path": str(converted),
                "quantize": quantize,
                "signatures": signatures,
            }
            products = None
            if quantize in INTEGERS and representative is not None:
                arrays, batch = calibration_data(representative, streamed, quantize)
                calibration = pathlib.Path(folder, "calibration")
                calibration.write_bytes(protocol.pack_arrays(arrays))
                request["calibration"] = {"path": str(calibration), "batch": batch}
                products = file.with_name("products.tflite")
                request["products"] = str(products)
            _convert(model, converter, request)
        shutil.copyfile(converted, file)
        if quantize is not None and representative is not None:
            verify_useful(model, file, quantize, representative, streamed, products)
        answers = {}
        if not alone:
            answers[SERVING_DEFAULT] = verify_file(file, TFLiteRunner, reference, quantize)
        if stepper is not None:
            over_time = stepper.over_time
            answers[STEP] = verify_file(
                file, TFLiteRunner, reference, quantize, over_time=over_time
            )
        if proof:
            known = make_proof(reference, stepper, alone=alone, quantize=quantize, answers=answers)
            write_proof(file, known, inside=proof == "inside")
    return target


def _refuse_combination(signature: str | None, quantize: str | None, step: bool | None) -> None:
    if signature == STEP and step is not None:
        raise ValueError(
            f'signature="step" writes a file of the step alone: received step={step} with it, '
            "which says whether files of whole sequences have one. Leave step out"
        )
    if step and quantize in INTEGERS:
        raise ValueError(
            f'quantize="{quantize}" needs samples of all inputs, and those of the signature step '
            'are states too: export without step=True, or the step alone by signature="step"'
        )


def _refuse_untested_statistics(model: keras.Model) -> None:
    """The rows of a table of statistics share one scale in 8 bits, which few models survive."""
    for path, layer in named_layers(model):
        if isinstance(layer, TimestepBatchNormalization):
            raise ValueError(
                f'layer "{path}" keeps statistics of every timestep, which quantize="dynamic" '
                "often leaves of no use: give samples={input name: array}, on which the "
                'file is tested, or take quantize="float16"'
            )


def _refuse_loops(model: keras.Model, saved_model: pathlib.Path, quantize: str | None) -> None:
    """TensorFlow's quantizer ends its process where it meets a loop."""
    ops = SavedModelFile(saved_model).ops
    loops = [node for op in ("While", "StatelessWhile") for node in ops.get(op, [])]
    if loops:
        raise ValueError(
            f'quantize="{quantize}" cannot convert the loop of {layers_of(model, loops)}: export '
            'the step alone, signature="step"; or build it with unroll=True and a fixed number of '
            'timesteps, keras.Input((timesteps, features)); or take quantize="dynamic"'
        )


def _convert(model: keras.Model, converter: WorkerProcess, request: dict[str, Any]) -> None:
    try:
        log_float32(model, converter.load(request)["float32"])
    except RunnerError as error:
        saved_model = SavedModelFile(pathlib.Path(request["saved_model"]))
        places = _unsupported(error.detail, saved_model.ops)
        if unmeasured := re.findall(r"calibration: Failed for tensor (\S+)", error.detail):
            raise ConversionError(
                "TensorFlow's quantizer takes integers for real numbers in "
                f"{layers_of(model, unmeasured)}, at {unmeasured[0]}: it does so where an argmax, "
                'or a comparison of booleans, reads them. Take quantize="int8", or compute without'
            ) from error
        if not places:
            _refuse_quantized(model)
            raise ConversionError(str(error)) from error
        listed = "; ".join(
            f"{_origin(op, nodes, saved_model.ops)} in {layers_of(model, nodes)}"
            for op, nodes in places.items()
        )
        advice = "Replace the layer, or the operation of keras.ops, that computes it"
        if any(layer.compute_dtype == "float64" for _, layer in named_layers(model)):
            advice = (
                "The model computes in float64: build it under the float32 policy and copy the "
                "weights (set_weights)"
            )
        if any(op.startswith(LOOP_OPS) for op in places):
            advice = (
                "It runs a loop of its own, which converts with a fixed batch, "
                "keras.Input(batch_shape=(1, None, ...)). With any batch and length convert a cell "
                "in keras.layers.RNN(cell), and the layers of Keras and of keras_norm"
            )
        raise UnsupportedOpError(
            f"TFLite has no builtin operation for {listed}. {advice}", places
        ) from error


def _refuse_quantized(model: keras.Model) -> None:
    """Raise ConversionError if Keras quantized a layer: its operations have no TFLite form."""
    for path, layer in named_layers(model):
        if mode := getattr(layer, "quantization_mode", None):
            raise ConversionError(
                f'layer "{path}" computes in {mode} since model.quantize, which the converter does '
                'not take. Export the model as it was before, with quantize="dynamic" or "int8"'
            )


def _origin(op: str, nodes: list[str], ops: dict[str, list[str]]) -> str:
    """An operation, and those of the model that the converter made it of."""
    sources = [source for source, own in ops.items() if {*own} & {*nodes}]
    return op if op in ops or not sources else f"{op} (made of {' and '.join(sorted(sources))})"


def _unsupported(report: str, ops: dict[str, list[str]]) -> dict[str, list[str]]:
    """Operation -> nodes that the converter's report complains of."""
    found: dict[str, list[str]] = {}
    for line, op in re.findall(r"(error: .*'|^\t)tf\.(\w+)", report, re.MULTILINE):
        # The converter makes some operations of others: their nodes are in the report alone.
        made = [*found.get(op, []), *re.findall(r'"([^"@]+)@__inference_named', line)]
        nodes = ops.get(op, made)
        # The report gives a node as "name@function", and an op can be wrong in one place only;
        # but with the first op of a loop the converter stops looking.
        blamed = [node for node in nodes if f'"{node}@' in report]
        found[op] = nodes if op.startswith(LOOP_OPS) else blamed or nodes
    return found
