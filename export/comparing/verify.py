"""Run an exported file on random inputs and compare it with the Keras model it was made from."""

import itertools
import math
import pathlib
from collections.abc import Callable

import keras
import numpy as np

from keras_norm.export.comparing.compare import TOLERANCES, compare, largest
from keras_norm.export.comparing.eight_bits import EIGHT_BITS
from keras_norm.export.comparing.masking import mask_fills
from keras_norm.export.comparing.precision import model_precision
from keras_norm.export.errors import VerificationError
from keras_norm.export.formats.tflite import FUSED_LSTM
from keras_norm.export.results import difference
from keras_norm.export.runners import Arrays, KerasRunner, ONNXRunner, Runner, TFLiteRunner
from keras_norm.export.signature import STEP, TensorSpec, input_specs
from keras_norm.walk import named_layers

Cases = list[tuple[Arrays, Arrays]]
OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]

BATCHES = (1, 3)
# Pairs of lengths: the first that the model accepts is used (a convolution can need more steps).
LENGTHS = ((4, 7), (16, 25), (64, 90), (256, 300))

CONVERTS_WRONGLY = "one of its layers converts wrongly"
TWIN_DIFFERS = "one of its layers keeps what its config does not say"

# Largest difference, as a share of the largest output. Every
# layer's weights are off by 2**-11 in float16.
TOLERANCE = {None: 1e-4, "float16": 5e-2}


def verify_tflite(
    file: pathlib.Path,
    cases: Cases,
    quantize: str | None = None,
    lstms: int = 0,
) -> None:
    """Invoke the file at two shapes and at the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        file: a TFLite file.
        cases: of the model that it was made from.
        quantize: how the file is quantised: None and "float16" are compared with the model's
            outputs, in 8 bits it has to give finite numbers where the model does.
        lstms: how many fused LSTMs the file has at least.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
    """
    with TFLiteRunner(file) as run:
        found = len(run.ops().get(FUSED_LSTM, []))
        if found < lstms:
            raise VerificationError(f"the file has {found} of {lstms} fused LSTMs ({FUSED_LSTM})")
        _run_thrice(run, cases, quantize)


def verify_tflite_step(
    file: pathlib.Path, cases: Cases, over_time: OverTime, quantize: str | None = None
) -> None:
    """Run whole sequences through the file's signature `step`, timestep by timestep.

    Args:
        file: a TFLite file.
        cases: of the model that it was made from.
        over_time: `Step.over_time` of the model.
        quantize: as for `verify_tflite`.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with TFLiteRunner(file, STEP) as run:
        for inputs, expected in cases:
            actual = over_time(run, inputs)
            for name, wanted in expected.items():
                require_same(name, wanted, actual.get(name), inputs, quantize, "TFLite's step")


def verify_onnx(file: pathlib.Path, cases: Cases) -> None:
    """Run the file at two shapes and at the first again, in a worker process.

    Args:
        file: an ONNX file.
        cases: of the model that it was made from.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with ONNXRunner(file) as run:
        _run_thrice(run, cases)


def verify_twin(model: keras.Model, twin: keras.Model, cases: Cases | None = None) -> None:
    """Run another model that is to compute the same at two shapes, unless the inputs are texts.

    Args:
        model: a functional or a built sequential model.
        twin: the other one.
        cases: of `verification_cases`; None to make them.

    Raises:
        VerificationError: an output has another shape, or differs.
        ValueError: the model runs at none of the shapes tried.
    """
    if any(spec.dtype == "string" for spec in input_specs(model).values()):
        return
    run = KerasRunner(twin)
    for inputs, expected in verification_cases(model) if cases is None else cases:
        actual = run(inputs)
        share = max(TOLERANCE[None], TOLERANCES[model_precision(model, expected)])
        for name, wanted in expected.items():
            require_same(name, wanted, actual[name], inputs, None, "its twin", TWIN_DIFFERS, share)


def verification_cases(model: keras.Model) -> Cases:
    """Two shapes of random inputs, each with what the Keras model makes of them.

    Args:
        model: a functional or a built sequential model.

    Raises:
        ValueError: the model runs at none of the shapes tried.
    """
    run = KerasRunner(model)
    rng = np.random.default_rng(0)
    ids, fills = _smallest_vocabulary(model), mask_fills(model)
    refusal: Exception | None = None
    for lengths in LENGTHS:
        cases = []
        try:
            for batch, length in zip(BATCHES, lengths, strict=True):
                inputs = {
                    name: _draw(spec, batch, length, ids, fills.get(name), rng)
                    for name, spec in run.inputs.items()
                }
                cases.append((inputs, run(inputs)))
        # Whatever a layer raises at a length it cannot take, a longer one may suit it.
        except Exception as error:
            refusal = error
            continue
        if all(a.size for a in itertools.chain.from_iterable(o.values() for _, o in cases)):
            return cases
    raise ValueError(
        f"the model gives no output for random inputs of the lengths {LENGTHS}, so a file made "
        "from it cannot be verified"
    ) from refusal


def _run_thrice(run: Runner, cases: Cases, quantize: str | None = None) -> None:
    first, second = cases
    for inputs, expected in (first, second, first):
        actual = run(inputs)
        for name, wanted in expected.items():
            require_same(name, wanted, actual.get(name), inputs, quantize, run.name)


def require_same(
    name: str,
    wanted: np.ndarray,
    got: np.ndarray | None,
    inputs: Arrays,
    quantize: str | None,
    who: str = "TFLite",
    suspect: str = CONVERTS_WRONGLY,
    share: float | None = None,
) -> None:
    """Raise VerificationError unless one output is what Keras gives.

    Args:
        name: of the output.
        wanted: what Keras gives.
        got: what is compared; None where there is nothing.
        inputs: what both were given.
        quantize: as for `verify_tflite`.
        who: what gave it.
        suspect: why it may be something else.
        share: allowed difference, as a share of the largest value; None for that of `quantize`.
    """
    if quantize is not None and wanted.dtype.kind != "f" and got is not None:
        return  # a rounded weight may turn an argmax or a comparison
    atol = math.inf  # in 8 bits numbers have to be finite, and what they are worth is known later
    if quantize not in EIGHT_BITS:
        atol = (TOLERANCE[quantize] if share is None else share) * largest([wanted])
    received = {} if got is None else {name: got}
    if got is not None and got.shape == wanted.shape and wanted.dtype.kind == "f":
        # What random inputs make NaN of has to be NaN.
        nan = np.isnan(wanted) & np.isnan(got)
        wanted, received = np.where(nan, 0.0, wanted), {name: np.where(nan, 0.0, got)}
    (result,) = compare({name: wanted}, received, 0.0, atol)
    if not result:
        shapes = ", ".join(str(array.shape) for array in inputs.values())
        allowed = "" if result.problem else f", and {atol:.2g} is allowed"
        raise VerificationError(
            f"{who} gives something else than the Keras model for inputs of shape {shapes}: "
            f"{difference(result)}{allowed}. Either the model is random in inference, or {suspect}"
        )


def _smallest_vocabulary(model: keras.Model) -> int:
    """The number of ids that every embedding knows; 2 without one (ids 0 and 1)."""
    sizes = [
        layer.input_dim
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Embedding)
    ]
    return min(sizes, default=2)


def _draw(
    spec: TensorSpec,
    batch: int,
    length: int,
    ids: int,
    fill: float | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Random values for one input; where it is masked, with a gap and a padded end."""
    open_batch, *sizes = spec.shape
    shape = [batch if open_batch is None else open_batch]
    shape += [length if size is None else size for size in sizes]
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith(("float", "bfloat")):
        values: np.ndarray = rng.normal(size=shape)
    else:
        ids = min(ids, np.iinfo(spec.dtype).max)
        values = rng.integers(0, ids, shape)
        values[..., 0] = ids - 1  # no row is padding from its start to its end
    if fill is not None and len(shape) > 1:
        values[0, 1:2] = fill
        values[-1, shape[1] - shape[1] // 3 :] = fill
    return values.astype("float32" if spec.dtype == "bfloat16" else spec.dtype)
