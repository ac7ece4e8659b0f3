"""Write a Keras model as a TFLite file of builtin operations, and verify the file."""

import os
import pathlib

import keras

from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
from keras_norm.export.formats.refusals import (
    refuse_half_precision,
    refuse_text,
    refuse_unsupported_model,
    warn_of_static_batch,
)
from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.tflite.calibration import INTEGERS, read_representative
from keras_norm.export.formats.tflite.conversion import (
    convert_model,
    start_converter,
    tflite_layers,
)
from keras_norm.export.formats.tflite.quantization_error import (
    log_float32,
    verify_useful,
    warn_of_cost,
)
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.formats.verification import (
    make_golden_cases,
    verify_file,
    write_golden_cases,
)
from keras_norm.export.model.find_step import find_step
from keras_norm.export.model.judge import judge_for_export
from keras_norm.export.model.other_backends import runs_on_tensorflow
from keras_norm.export.packages import require
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm.layers.timestep_batch_norm import TimestepBatchNormalization
from keras_norm.named_layers import named_layers
from keras_norm.typing import TensorLike
from keras_norm_verify.artifact import SUFFIX


@runs_on_tensorflow
def export_tflite(
    model: keras.Model,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    quantize: str | None = None,
    samples: TensorLike = None,
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
    equivalent layers of this package. Batch, time and every other dynamic dimension of the model
    stay dynamic. A child process converts the model. The exporter then runs the file, with at least
    two batch sizes and lengths, and compares its outputs with the Keras model's. Only a file that
    passes is moved to `path`.

    With another backend than TensorFlow, a child process runs this function: see the guide
    "Export models trained on JAX or PyTorch".

    Args:
        model: a functional or a built sequential model.
        path: file to write, ending in ".tflite". Missing parent folders are created.
        signature: "step" for a file with the step signature only; a dynamic batch is then fixed
            to 1. None for whole sequences.
        quantize: None keeps the weights in float32. "float16" stores the weights in half the size.
            "dynamic" stores the weights in 8 bits and quantizes activations at run time. "int8"
            computes in 8 bits throughout. "int16x8" computes with weights in 8 bits and activations
            in 16 bits. "int8" and "int16x8" keep the types of Keras' inputs and outputs. For whole
            sequences they need a static number of timesteps, at most 128, because the file repeats
            the operations of recurrent layers for every timestep. A warning says if the file is
            larger or slower than with "dynamic". The error of 8 bits depends on the model. On
            random inputs the outputs must be finite. On `samples` the root mean square of the
            errors must be at most a quarter of the output's standard deviation, as in
            `keras_norm.export.check`.
        samples: real, complete samples like the model's inputs in production: arrays by input name,
            or one array for a model with one input. The file is run on up to three samples instead
            of random inputs. "int8" and "int16x8" need a few hundred samples, and take the scales
            of activations from all samples. The scales of a step signature come from the inputs and
            states that occur while the samples stream through the model. "dynamic" is tested on the
            samples if they are given.
        step: whether to write the step signature beside `serving_default`, as for
            `export_saved_model`. None writes it if the model supports it and its number of
            timesteps is dynamic. "int8" and "int16x8" have
            no step signature beside `serving_default`: samples of whole sequences have no states.
        golden_cases: True stores golden cases for `keras-norm verify` beside the file, in a file of
            its name and ".golden.npz". "inside" appends the golden cases to the file, where TFLite
            readers ignore them. False stores no golden cases.
        overwrite: whether to replace an existing file and its golden cases.

    Returns:
        The file written.

    Raises:
        FileExistsError: the file, or a file at the path of its golden cases, exists, and
            `overwrite` is False.
        OSError: the file cannot be written: no permission, a full disk.
        UnsupportedOpError: TFLite lacks an operation. The message names the operation and its
            layers.
        VerificationError: the file runs, and its outputs differ from the model's.
        ConversionError: TensorFlow's converter failed or died.
        RunnerError: the file was converted and does not run, or the child process of another
            backend died.
        StreamingError: a step signature is required, and the model cannot run timestep by timestep.
        ImportError: LiteRT is not installed.
        ValueError: the model has no fixed inputs, a weight that is NaN, a text input, a stateful
            layer, or a layer that computes in float16 or bfloat16; `quantize` is "dynamic" without
            `samples` for a model with statistics of every timestep; `quantize` is "int8" or
            "int16x8", and the number of timesteps is dynamic or larger than 128, or `samples` is
            None; `signature`, `quantize` or
            `golden_cases` is unknown; two of the arguments `signature`, `quantize` and `step`
            exclude each other; `path` does not end in ".tflite".

    Example:
        >>> rows = keras.Input((None, 8), name="rows")  # any batch, any length
        >>> model = keras.Model(rows, keras_norm.LayerNormLSTM(16)(rows))
        >>> export_tflite(model, "digits.tflite").name
        'digits.tflite'
    """
    if quantize not in (None, "float16", *EIGHT_BITS):
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
        raise ValueError(f'path must end in ".tflite"; received {target}')
    require("tflite")
    refuse_text(model, "TFLite")
    refuse_unsupported_model(model)
    warn_of_static_batch(model)
    # TFLite's kernels compute in float32: most do not support float16, and none supports bfloat16.
    advice = '. To store the weights in half the size, choose quantize="float16"'
    refuse_half_precision(model, "TFLite", advice)
    _refuse_combination(signature, quantize, step)
    representative = read_representative(model, quantize, samples)
    if quantize == "dynamic" and representative is None:
        _refuse_untested_statistics(model)
    step_only, in_integers = signature == STEP, quantize in INTEGERS
    if step is None and in_integers:
        step = False
    with staged(target, overwrite, beside=target.name + SUFFIX) as file:
        products = file.with_name("products.tflite") if in_integers else None
        looped = file.with_name("looped.tflite")
        has_loops = in_integers and not step_only and _has_loop(model)
        with start_converter() as converter:
            judge = judge_for_export(model, samples)
            with tflite_layers(model, quantize, step_only):
                # From each row of a kernel before a LayerNorm, `serving_default` subtracts the mean
                # of the row. With `center_kernels=True` the signature `step` does the same. So the
                # two signatures share one copy of the kernels in the file.
                stepper = find_step(model, step_only or step, judge, center_kernels=True)
            in_float32 = convert_model(
                model,
                file,
                converter,
                quantize=quantize,
                step=stepper,
                step_only=step_only,
                samples=representative,
                products=products,
            )
            log_float32(model, in_float32)
            if has_loops:
                convert_model(model, looped, converter, quantize="dynamic")
        if quantize is not None and representative is not None:
            streamed = stepper if step_only else None
            verify_useful(judge.run, file, quantize, representative, streamed, products)
        if quantize is not None and has_loops:
            warn_of_cost(file, looped, quantize, judge.expected.cases[0].inputs)
        outputs = {}
        if not step_only:
            outputs[SERVING_DEFAULT] = verify_file(file, TFLiteRunner, judge, quantize)
        if stepper is not None:
            over_time = stepper.over_time
            outputs[STEP] = verify_file(file, TFLiteRunner, judge, quantize, over_time)
        if golden_cases:
            cases = make_golden_cases(
                judge, stepper, step_only=step_only, quantize=quantize, outputs=outputs
            )
            write_golden_cases(file, cases, inside=golden_cases == "inside")
    return target


def _has_loop(model: keras.Model) -> bool:
    """Return whether a recurrent layer of the model runs in a loop."""
    layers = (layer for _, layer in named_layers(model))
    return any(isinstance(layer, keras.layers.RNN) and not layer.unroll for layer in layers)


def _refuse_combination(signature: str | None, quantize: str | None, step: bool | None) -> None:
    if signature == STEP and step is not None:
        raise ValueError(
            f'signature="step" writes the step signature only, so it takes no step=; received '
            f"step={step}. Leave step out"
        )
    if step and quantize in INTEGERS:
        raise ValueError(
            f'quantize="{quantize}" and step=True do not go together: the scales come from samples '
            "of whole sequences, which have no states. Write a second file with the step signature "
            'only: signature="step"'
        )


def _refuse_untested_statistics(model: keras.Model) -> None:
    """Raise ValueError if a batch norm has separate statistics for each timestep.

    In 8 bits the statistics of all timesteps share one scale, and few models stay usable.
    """
    for path, layer in named_layers(model):
        if isinstance(layer, TimestepBatchNormalization):
            raise ValueError(
                f'layer "{path}" has separate batch statistics for each timestep, and the 8 bits '
                'of quantize="dynamic" are too imprecise for most such models. Give samples={input '
                "name: array}, on which the exporter measures the error, or choose "
                'quantize="float16"'
            )
