"""Write a Keras model as a TFLite file of builtin operations, and verify the file."""

import os
import pathlib
import re
import shutil
import tempfile
from typing import Any

import keras

from keras_norm.export.errors import ConversionError, RunnerError, UnsupportedOpError
from keras_norm.export.formats.converter_process import layers_of, start_converter
from keras_norm.export.formats.golden_cases import make_golden_cases, write_golden_cases
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
from keras_norm.export.formats.tflite.tflite_loop import TFLITE_FUNCTIONS
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.formats.verify_file import verify_file
from keras_norm.export.golden_cases.artifact_files import SUFFIX
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.model.reference import make_reference
from keras_norm.export.model.step_signature import find_step
from keras_norm.export.optional_packages import require
from keras_norm.export.runtimes import worker_protocol as protocol
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.named_layers import named_layers

LOOP_OPS = "TensorList"


def export_tflite(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    quantize: str | None = None,
    samples: Any = None,
    step: bool | None = None,
    golden_cases: bool | str = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write `model` as a TFLite file in inference mode, and compare its outputs with the model's.

    The file has the signature `serving_default`, which runs whole sequences. It can also have the
    signature `step`, which runs one timestep from given states (`keras_norm.export.Step`). Both
    signatures share the weights. `signature="step"` writes a file with the step signature only. The
    step signature needs no loop, so it can also compute in 8 bits.

    The file needs TFLite's builtin operations only. The exporter writes Keras' recurrent layers as
    equivalent layers of this package (`model.layer_replacement`). Batch, time and every other
    dynamic dimension of the model stay dynamic. A child process converts the model. The exporter
    then runs the file, with at least two batch sizes and lengths, and compares its outputs with the
    Keras model's. Only a file that passes is moved to `path`.

    Args:
        model: a functional or a built sequential model.
        path: file to write, ending in ".tflite". Missing parent folders are created.
        signature: "step" for a file with the step signature only; a dynamic batch is then fixed
            to 1. None for whole sequences.
        quantize: None keeps the weights in float32. "float16" stores the weights in half the size.
            "dynamic" stores the weights in 8 bits and quantizes activations at run time. "int8"
            computes in 8 bits throughout. "int16x8" computes with weights in 8 bits and activations
            in 16 bits. "int8" and "int16x8" keep the types of Keras' inputs and outputs. For whole
            sequences "int8" and "int16x8" support recurrent layers with `unroll=True` only. The
            error of 8 bits depends on the model. On random inputs the outputs must be finite. On
            `samples` the errors must meet `keras_norm.export.compare.quantization_tolerance`, the
            rule that `keras_norm.export.check` applies too.
        samples: real, complete samples like the model's later inputs: arrays by input name, or one
            array for a model with one input. The file is run on up to three samples instead of
            random inputs. "int8" and "int16x8" need a few hundred samples, and take the scales of
            activations from all samples. The scales of a step signature come from the inputs and
            states that occur while the samples stream through the model. "dynamic" is tested on the
            samples if they are given.
        step: whether to write the step signature beside `serving_default`, as for
            `export_saved_model`. None writes it if the model supports it. "int8" and "int16x8" have
            no step signature beside `serving_default`: samples of whole sequences have no states.
        golden_cases: True stores golden cases for `keras-norm verify` beside the file, in a file of
            its name and ".golden.npz". "inside" appends the golden cases to the file, where TFLite
            readers ignore them. False stores no golden cases.
        overwrite: whether to replace an existing file.

    Returns:
        The file written.

    Raises:
        FileExistsError: the file exists, and `overwrite` is False.
        OSError: the file cannot be written: no permission, a full disk.
        UnsupportedOpError: TFLite lacks an operation. The message names the operation and its
            layers.
        VerificationError: the file runs, and its outputs differ from the model's.
        ConversionError: TensorFlow's converter failed or died.
        RunnerError: the file was converted and does not run.
        StreamingError: a step signature is required, and the model cannot run timestep by timestep.
        ImportError: LiteRT is not installed.
        ValueError: the model has no fixed inputs, a weight that is NaN, a text input, a stateful
            layer, or a layer that computes in float16 or bfloat16; `quantize` is "dynamic" without
            `samples` for a model with statistics of every timestep; `quantize` is "int8" or
            "int16x8", and the model has a loop or `samples` is None; `signature`, `quantize` or
            `golden_cases` is unknown; two of the arguments `signature`, `quantize` and `step`
            exclude each other; `path` does not end in ".tflite".

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
    if golden_cases not in (True, False, "inside"):
        raise ValueError(f'golden_cases must be True, False or "inside"; received {golden_cases!r}')
    target = pathlib.Path(path)
    if target.suffix != ".tflite":
        raise ValueError(f'the file name must end in ".tflite"; received {target}')
    require("tflite")
    refuse_text(model, "TFLite")
    refuse_unfit(model)
    warn_of_fixed_batch(model)
    # TFLite's kernels compute in float32: most do not support float16, and none supports bfloat16.
    refuse_half_precision(model, "TFLite", '; quantize="float16" stores them in half the size')
    _refuse_combination(signature, quantize, step)
    representative = read_representative(model, quantize, samples)
    if quantize == "dynamic" and representative is None:
        _refuse_untested_statistics(model)
    alone = signature == STEP
    wanted = step
    if step is None and quantize in INTEGERS:
        wanted = False
    # TensorFlow reads some characters of a path as a pattern. A temporary path has no such
    # characters.
    with (
        staged(target, overwrite, beside=target.name + SUFFIX) as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        with start_converter("tflite/convert_tflite.py", "TFLite") as converter:
            reference = make_reference(model, samples)
            saved_model = pathlib.Path(folder, "saved_model")
            converted = pathlib.Path(folder, "model.tflite")
            with portable_layers(model, TFLITE_FUNCTIONS, one_lookup=alone):
                # A TFLite file stores the centered kernels once, for both of its signatures.
                stepper = find_step(model, alone or wanted, reference, center_kernels=True)
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
        if golden_cases:
            known = make_golden_cases(
                reference, stepper, alone=alone, quantize=quantize, answers=answers
            )
            write_golden_cases(file, known, inside=golden_cases == "inside")
    return target


def _refuse_combination(signature: str | None, quantize: str | None, step: bool | None) -> None:
    if signature == STEP and step is not None:
        raise ValueError(
            f'signature="step" writes a file of the step alone: received step={step} with it, '
            "which says whether files of whole sequences have one. Leave step out"
        )
    if step and quantize in INTEGERS:
        raise ValueError(
            f'quantize="{quantize}" measures scales on samples, and samples of whole sequences '
            'have no states. Received: step=True. Write a file of the step alone: signature="step"'
        )


def _refuse_untested_statistics(model: keras.Model) -> None:
    """Raise ValueError for a layer with statistics of every timestep.

    In 8 bits all rows of the table of statistics share one scale, and few models stay usable.
    """
    for path, layer in named_layers(model):
        if isinstance(layer, TimestepBatchNormalization):
            raise ValueError(
                f'layer "{path}" keeps statistics of every timestep, which quantize="dynamic" '
                "often leaves of no use: give samples={input name: array}, on which the "
                'file is tested, or take quantize="float16"'
            )


def _refuse_loops(model: keras.Model, saved_model: pathlib.Path, quantize: str | None) -> None:
    """Raise ValueError for a graph with a loop: TensorFlow's quantizer would end its process."""
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
    """Raise ConversionError if Keras quantized a layer: TFLite lacks this layer's operations."""
    for path, layer in named_layers(model):
        if mode := getattr(layer, "quantization_mode", None):
            raise ConversionError(
                f'layer "{path}" computes in {mode} since model.quantize, which the converter does '
                'not take. Export the model as it was before, with quantize="dynamic" or "int8"'
            )


def _origin(op: str, nodes: list[str], ops: dict[str, list[str]]) -> str:
    """Name an operation, and the model's operations from which the converter made it."""
    sources = [source for source, own in ops.items() if {*own} & {*nodes}]
    return op if op in ops or not sources else f"{op} (made of {' and '.join(sorted(sources))})"


def _unsupported(report: str, ops: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the unsupported operations of the converter's report: operation -> nodes."""
    found: dict[str, list[str]] = {}
    for line, op in re.findall(r"(error: .*'|^\t)tf\.(\w+)", report, re.MULTILINE):
        # The converter makes some operations from others. Only the report names these nodes.
        made = [*found.get(op, []), *re.findall(r'"([^"@]+)@__inference_named', line)]
        nodes = ops.get(op, made)
        # The report names a node "name@function", because a single node of an operation can be
        # unsupported. At the first operation of a loop the converter stops its search.
        blamed = [node for node in nodes if f'"{node}@' in report]
        found[op] = nodes if op.startswith(LOOP_OPS) else blamed or nodes
    return found
