"""Run a TFLite file on random inputs and compare it with the Keras model it was made from."""

import itertools
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export.compare import TOLERANCES, largest
from keras_norm.export.errors import StreamingError, VerificationError, one_line
from keras_norm.export.precision import model_precision
from keras_norm.export.runners import Arrays, KerasRunner, TFLiteRunner
from keras_norm.export.signature import STEP, TensorSpec
from keras_norm.export.streaming import Step
from keras_norm.walk import named_layers

BATCHES = (1, 3)
# Pairs of lengths: the first that the model accepts is used (a convolution can need more steps).
LENGTHS = ((4, 7), (16, 25), (64, 90), (256, 300))

CONVERTS_WRONGLY = "one of its layers converts wrongly"
MIXES_TIMESTEPS = (
    "a layer that is not recurrent mixes timesteps, as pooling, convolution and attention do"
)

# Largest difference, as a share of the largest output. Every
# layer's weights are off by 2**-11 in float16.
TOLERANCE = {None: 1e-4, "float16": 5e-2}


def verify_tflite(
    model: keras.Model,
    file: pathlib.Path,
    quantize: str | None = None,
    step: Step | None = None,
) -> None:
    """Invoke the file at two shapes and at the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        model: the Keras model.
        file: its TFLite file.
        quantize: how the file is quantised: None and "float16" are compared with the model's
            outputs, "dynamic" has to give finite numbers where the model does.
        step: the model timestep by timestep, where the file has a signature `step`.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
        ValueError: the Keras model itself runs at none of the shapes tried.
    """
    first, second = _cases(model)
    with TFLiteRunner(file) as run:
        for inputs, expected in (first, second, first):
            actual = run(inputs)
            for name, wanted in expected.items():
                _compare(name, wanted, actual.get(name), inputs, quantize)
    if step is None:
        return
    with TFLiteRunner(file, STEP) as run:
        for inputs, expected in (first, second):
            actual = step.over_time(run, inputs)
            for name, wanted in expected.items():
                _compare(name, wanted, actual.get(name), inputs, quantize, "TFLite's step")


def verified_step(model: keras.Model) -> Step:
    """The model timestep by timestep, once it gave what the model gives for whole sequences.

    Args:
        model: a functional or a built sequential model.

    Raises:
        StreamingError: the model cannot run timestep by timestep, or gives something else then.
    """
    step = Step(model)
    run = tf.function(lambda arguments: step.joined(arguments), autograph=False)
    try:
        for inputs, expected in _cases(model):
            actual = step.over_time(run, inputs)
            share = max(TOLERANCE[None], TOLERANCES[model_precision(model, expected)])
            for name, wanted in expected.items():
                _compare(
                    name, wanted, actual[name], inputs, None, "the step", MIXES_TIMESTEPS, share
                )
    except (StreamingError, VerificationError) as error:
        raise StreamingError(str(error)) from error
    # Whatever a layer raises at a length of one, which it may not take.
    except Exception as error:
        raise StreamingError(
            f"the model does not run on one timestep: {one_line(error)}"
        ) from error
    return step


def _compare(
    name: str,
    wanted: np.ndarray,
    got: np.ndarray | None,
    inputs: Arrays,
    quantize: str | None,
    who: str = "TFLite",
    suspect: str = CONVERTS_WRONGLY,
    share: float | None = None,
) -> None:
    where = f'output "{name}" with inputs of shape ' + ", ".join(
        str(array.shape) for array in inputs.values()
    )
    if got is None or got.shape != wanted.shape:
        received = "nothing" if got is None else f"the shape {got.shape}"
        raise VerificationError(f"{where}: Keras gives the shape {wanted.shape}, {who} {received}")
    if quantize is not None and wanted.dtype.kind != "f":
        return  # a rounded weight may turn an argmax or a comparison
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(got)):
        raise VerificationError(f"{where}: {who} gives NaN or infinity where Keras does not")
    if quantize == "dynamic" or not finite.any():
        return
    wanted, got = wanted[finite].astype("float64"), got[finite].astype("float64")
    allowed = (TOLERANCE[quantize] if share is None else share) * largest([wanted])
    worst = float(np.abs(wanted - got).max())
    if worst > allowed:
        raise VerificationError(
            f"{where}: {who} is off by {worst:.3g}, more than {allowed:.3g}: either the model "
            f"is random in inference, or {suspect}"
        )


def _cases(model: keras.Model) -> list[tuple[Arrays, Arrays]]:
    """Two shapes of random inputs, each with what the Keras model makes of them."""
    run = KerasRunner(model)
    rng = np.random.default_rng(0)
    ids = _smallest_vocabulary(model)
    refusal: Exception | None = None
    for lengths in LENGTHS:
        cases = []
        try:
            for batch, length in zip(BATCHES, lengths, strict=True):
                inputs = {n: _draw(s, batch, length, ids, rng) for n, s in run.inputs.items()}
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


def _smallest_vocabulary(model: keras.Model) -> int:
    """The number of ids that every embedding knows; 2 without one (ids 0 and 1)."""
    sizes = [
        layer.input_dim
        for _, layer in named_layers(model)
        if isinstance(layer, keras.layers.Embedding)
    ]
    return min(sizes, default=2)


def _draw(
    spec: TensorSpec, batch: int, length: int, ids: int, rng: np.random.Generator
) -> np.ndarray:
    """Random values for one input; the last step of the last row is zero, often a masked one."""
    open_batch, *sizes = spec.shape
    shape = [batch if open_batch is None else open_batch]
    shape += [length if size is None else size for size in sizes]
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if not spec.dtype.startswith(("float", "bfloat")):
        ids = min(ids, np.iinfo(spec.dtype).max)
        values = rng.integers(0, ids, shape)
        values[..., 0] = ids - 1  # no row is padding from its start to its end
        return values.astype(spec.dtype)
    reals = rng.normal(size=shape)
    if len(shape) > 2:
        reals[-1, -1] = 0.0
    return reals.astype("float32" if spec.dtype == "bfloat16" else spec.dtype)
