"""Run an exported file on its golden cases, and compare the outputs with the expected outputs.

    python keras_norm_verify.py model.tflite

`keras_norm.export` stores golden cases with each file: inputs, expected outputs, tolerances and a
hash of the file. This module needs NumPy and the runtime of the file: LiteRT for TFLite files, ONNX
Runtime for ONNX files, TensorFlow for SavedModels. It imports nothing from keras_norm, so this
single file can be copied to a device.

Exit status: 0 the outputs are the expected outputs; 1 an output differs, or the file was changed;
2 the file was not run.

Written by `make stubs` from the package `export/golden_cases`. Edit the package.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import pathlib
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# A NumPy array of any dtype and shape.
Array: TypeAlias = npt.NDArray[Any]
# NumPy arrays by the name of an input or an output.
Arrays: TypeAlias = dict[str, Array]
# A value that JSON can store.
Json: TypeAlias = Any


def run_over_time(
    run: Callable[[Arrays], Mapping[str, Array]],
    sequences: Arrays,
    others: Arrays,
    states: Sequence[str],
) -> Arrays:
    """Call `run` once for every timestep, each time with the states of the previous call.

    Args:
        run: the single-step model, a function from input arrays to output arrays.
        sequences: inputs with a time axis, (batch, time, ...), all of equal length.
        others: inputs without a time axis: the initial states, and inputs that are equal at every
            timestep.
        states: names of the states.

    Returns:
        Every output after each timestep, (batch, time, ...), without the states.

    Raises:
        ValueError: the outputs lack a state.
    """
    (length,) = {array.shape[1] for array in sequences.values()}
    steps: list[Arrays] = []
    for t in range(length):
        outputs = run({name: array[:, t] for name, array in sequences.items()} | others)
        if missing := set(states) - outputs.keys():
            raise ValueError(f"the outputs lack the state {', '.join(sorted(missing))}")
        others = others | {name: outputs[name] for name in states}
        steps.append({n: np.asarray(a) for n, a in outputs.items() if n not in states})
    return {name: np.stack([step[name] for step in steps], axis=1) for name in steps[0]}


# Make text from files safe to print. --------------------------------------------------------------

MAX_PRINTED = 2000  # maximum number of printed characters of a path or an error


def printable(text: str, most: int = 100) -> str:
    r"""Make text from a file safe to print in a terminal, as one line.

    Line breaks, escape sequences and marks of the writing direction become escapes such as "\x1b".
    Letters of all languages do not change.

    Args:
        text: any text.
        most: number of characters after which the text is cut.
    """
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def printable_error(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message.

    Args:
        error: any exception, for example of a runtime.
    """
    message = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    line = next(iter(message.strip().splitlines()), type(error).__name__)
    return printable(line, MAX_PRINTED)


def escape_unknown_letters() -> None:
    """Let `print` escape the characters that stdout cannot encode, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Discard everything that this process prints inside a `with` block, also from native code.

    A model can print: its text could look like a verdict.
    """
    with contextlib.ExitStack() as stack, open(os.devnull, "w") as nowhere:
        for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
            try:
                terminal = os.dup(descriptor)
            except OSError:  # the descriptor is closed, as in a service
                continue
            stack.callback(os.close, terminal)
            stack.callback(os.dup2, terminal, descriptor)
            if stream is not None:
                stream.flush()
                stack.callback(stream.flush)
            os.dup2(nowhere.fileno(), descriptor)
        yield


# The golden cases of an artifact: inputs and expected outputs, stored as an .npz file. ------------

VERSION = 1
# Maximum size of golden cases, packed and unpacked. Usually they take a few kilobytes. The limit
# protects against a small file that unpacks to gigabytes.
MAX_BYTES = 256 * 2**20

# Type of a function that runs an artifact: (signature's name, inputs by name) -> outputs by name.
RunSignature = Callable[[str, Arrays], Mapping[str, Array]]


class GoldenCasesError(ValueError):
    """The golden cases are missing or unusable, or the runtime of the artifact is missing.

    Args:
        message: one line. Escape sequences of terminals, in names of a file, become escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, MAX_PRINTED))


@dataclasses.dataclass(frozen=True, repr=False)
class GoldenCase:
    """One test of an artifact: the inputs of a call or of a stream, and the expected outputs.

    Attributes:
        name: text such as "batch 3, length 7, padded left".
        signature: name of the signature to call.
        inputs: arrays by name, texts as bytes. The sequences of a stream have the shape (batch,
            time, ...).
        expected: expected outputs by name.
        atol: absolute tolerance of each expected output, by name. Texts must be equal.
        sequences: names of the inputs of a stream that are passed one timestep at a time; empty for
            a single call.
        states: names of the inputs of a stream that get the outputs of the previous timestep.
        sequence_outputs: names of the outputs of a stream that are compared at every timestep,
            (batch, time, ...). All other outputs are compared at the last timestep.
    """

    name: str
    signature: str
    inputs: Arrays
    expected: Arrays
    atol: dict[str, float]
    sequences: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    sequence_outputs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<GoldenCase of signature {self.signature!r}: {self.name!r}>"

    def compute_outputs(self, run: RunSignature) -> Arrays:
        """Run an artifact on the inputs of this golden case, and return its outputs.

        Args:
            run: function from a signature's name and its inputs to its outputs.
        """
        if not self.sequences:
            outputs = run(self.signature, self.inputs)
            if not isinstance(outputs, Mapping):
                raise TypeError(f"outputs must be a dict of arrays, not {type(outputs).__name__}")
            return dict(outputs)
        sequences = {name: self.inputs[name] for name in self.sequences}
        others = {name: a for name, a in self.inputs.items() if name not in sequences}
        outputs = run_over_time(lambda x: run(self.signature, x), sequences, others, self.states)
        return {
            name: array if name in self.sequence_outputs else array[:, -1]
            for name, array in outputs.items()
        }


@dataclasses.dataclass(frozen=True, repr=False)
class GoldenCases:
    """The tests stored with an artifact: inputs, expected outputs, hashes of the artifact's files.

    Attributes:
        model: name of the Keras model.
        reference: text that describes the expected outputs, such as 'the outputs of the Keras model
            "digits"'.
        versions: versions of the packages that wrote the artifact, by name.
        hashes: SHA-256 hashes, by the name of each file in a SavedModel's folder; for a TFLite or
            ONNX file by "".
        cases: the golden cases.
    """

    model: str
    reference: str
    versions: dict[str, str]
    hashes: dict[str, str]
    cases: tuple[GoldenCase, ...]

    def __repr__(self) -> str:
        return f"<GoldenCases of {self.model!r}: {len(self.cases)} cases>"

    def to_bytes(self) -> bytes:
        """Pack the golden cases as an .npz file: arrays, and a JSON text named `golden_cases`.

        Raises:
            GoldenCasesError: the file is larger than `parse_golden_cases` reads.
        """
        fields = dataclasses.asdict(self)
        arrays: Arrays = {}
        for k, case in enumerate(fields["cases"]):
            for part in ("inputs", "expected"):
                arrays |= {f"{k}/{part}/{n}": _without_objects(a) for n, a in case[part].items()}
                case[part] = list(case[part])
        file = io.BytesIO()
        arrays["golden_cases"] = np.array(json.dumps({"version": VERSION} | fields))
        np.savez_compressed(file, allow_pickle=False, **arrays)
        with zipfile.ZipFile(file) as archive:
            require_size(sum(entry.file_size for entry in archive.infolist()))
        return file.getvalue()


def _without_objects(array: Array) -> Array:
    """Convert an array of bytes objects, which is text, to bytes of fixed width."""
    return array.astype(np.bytes_) if array.dtype.kind == "O" else array


def require_size(size: int) -> None:
    """Raise GoldenCasesError for golden cases of more than `MAX_BYTES`.

    Args:
        size: bytes of the golden cases, packed or unpacked.
    """
    if size > MAX_BYTES:
        raise GoldenCasesError(
            f"the golden cases take {size:,} bytes, more than the limit of {MAX_BYTES:,}. Export "
            "with shorter samples, or with golden_cases=False"
        )


def require_comparisons(cases: Sequence[GoldenCase]) -> None:
    """Raise GoldenCasesError if the golden cases compare nothing: every artifact would pass.

    The tolerance of an output must be smaller than its largest expected value in all cases, or than
    1 if all expected values are 0. An output that is tiny in one case is compared in another case.

    Args:
        cases: the golden cases.
    """
    if not cases:
        raise GoldenCasesError(
            "the golden cases compare nothing: the list of cases is empty. Export the model again"
        )
    largest: dict[str, float] = {}
    for case in cases:
        if not case.expected:
            raise _compares_nothing(case, "the case has no expected outputs")
        for name, expected in case.expected.items():
            if not expected.size:
                raise _compares_nothing(case, f"output '{printable(name)}' is empty")
            if expected.dtype.kind == "f":
                if np.isnan(expected).all():
                    values = f"every expected value of output '{printable(name)}' is NaN"
                    raise _compares_nothing(case, values, " with samples whose outputs are numbers")
                sizes = np.abs(expected[np.isfinite(expected)].astype("float64"))
                largest[name] = max(largest.get(name, 0.0), sizes.max(initial=0.0))
    for case in cases:
        for name in case.expected.keys() & largest.keys():
            atol = case.atol.get(name, math.inf)
            if not atol < (largest[name] or 1.0):
                raise _compares_nothing(
                    case,
                    f"output '{printable(name)}' has the tolerance {atol:.3g}, too large to detect "
                    f"an error, because its largest expected value is {largest[name]:.3g}",
                )


def _compares_nothing(case: GoldenCase, why: str, how: str = "") -> GoldenCasesError:
    name = printable(case.name)
    return GoldenCasesError(
        f"the golden cases compare nothing in case {name}: {why}. Export the model again{how}"
    )


# Parse the file of golden cases, which may be damaged or malicious. -------------------------------

MAX_CHARACTERS = 2**22  # maximum length of the JSON text


def parse_golden_cases(content: bytes) -> GoldenCases:
    """Parse the bytes that `GoldenCases.to_bytes` wrote.

    Args:
        content: bytes of the .npz file.

    Raises:
        GoldenCasesError: the golden cases are damaged, too large, of a newer version, or compare
            nothing.
    """
    try:
        arrays = _read_arrays(content)
        _require("golden_cases" in arrays, "the file has no JSON text golden_cases")
        text = arrays.pop("golden_cases")
        _require(text.dtype.kind == "U" and text.shape == (), "the JSON text is not a string")
        _require(text.nbytes <= 4 * MAX_CHARACTERS, "the JSON text is too long")
        fields = json.loads(str(text), object_pairs_hook=_without_repeats)
        _require(isinstance(fields, dict), "the JSON text is not a dict")
        _require_version(fields.pop("version", None))
        _require_fields(fields, GoldenCases, "the JSON text")
        _require_texts(fields, ("model", "reference"))
        for name in ("versions", "hashes"):
            _require(isinstance(fields[name], dict), f"the field {name} is not a dict")
            _require_texts(fields[name], fields[name])
        _require(isinstance(fields["cases"], list), "the field cases is not a list")
        cases = [_parse_case(k, own, arrays) for k, own in enumerate(fields.pop("cases"))]
        require_comparisons(cases)
        return GoldenCases(**fields, cases=tuple(cases))
    except GoldenCasesError:
        raise
    # The parsers of damaged files may raise any exception.
    except Exception as error:
        raise damaged(printable_error(error)) from error


def damaged(problem: str) -> GoldenCasesError:
    """Create the error for golden cases that were changed after the export.

    Args:
        problem: description of the first error in the golden cases.
    """
    return GoldenCasesError(
        f"the golden cases are damaged: {problem.rstrip('.')}. Export the model again"
    )


def unpack_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Unpack an entry of a zip archive, but not more bytes than the entry's header declares.

    Args:
        archive: the archive.
        entry: the entry.

    Raises:
        GoldenCasesError: the entry is too large, or of a compression that NumPy does not write.
    """
    require_size(entry.file_size)
    # Refuse compressions other than ZIP_STORED and ZIP_DEFLATED: `read` would unpack whole blocks,
    # and a block may be huge.
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    problem = "the archive is compressed with a method that NumPy does not write"
    _require(entry.compress_type in methods, problem)
    with archive.open(entry) as file:
        return file.read(entry.file_size + 1)


def _read_arrays(content: bytes) -> Arrays:
    """Read the arrays of an .npz file by name, and unpack at most `MAX_BYTES`."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        require_size(sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            npy = io.BytesIO(unpack_entry(archive, entry))
            name = entry.filename.removesuffix(".npy")
            _require(name not in arrays, f"the array '{printable(name)}' occurs twice")
            arrays[name] = np.lib.format.read_array(npy, allow_pickle=False)
    return arrays


def _parse_case(k: int, fields: Json, arrays: Arrays) -> GoldenCase:
    """Parse a golden case, and check the type of each field.

    Args:
        k: number of the case.
        fields: fields of the case in the JSON text.
        arrays: arrays of the .npz file.
    """
    _require_fields(fields, GoldenCase, f"case {k}")
    _require_texts(fields, ("name", "signature"))
    for part in ("inputs", "expected", "sequences", "states", "sequence_outputs"):
        names = fields[part]
        listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
        unique = listed and len({*names}) == len(names)
        _require(unique, f"case {k}: the field {part} is not a list of names without repetition")
    for part in ("inputs", "expected"):
        for name in fields[part]:
            array = arrays.get(f"{k}/{part}/{name}")
            fits = array is not None and array.dtype.kind in "biufS"
            problem = f"case {k}: '{printable(name)}' has no array of numbers or bytes in the file"
            _require(fits, problem)
        fields[part] = {name: arrays[f"{k}/{part}/{name}"] for name in fields[part]}
    inputs, tolerances = fields["inputs"], fields["atol"]
    _require(isinstance(tolerances, dict), f"case {k}: the field atol is not a dict")
    for name in fields["expected"]:
        atol = tolerances.get(name)
        _require(
            type(atol) in (int, float) and 0 <= atol < math.inf,
            f"case {k}: the tolerance of output '{printable(name)}' is "
            f"{printable(repr(atol))}, not a finite number of 0 or more",
        )
    for name in (*fields["sequences"], *fields["states"]):
        _require(
            name in inputs, f"case {k}: the state or sequence '{printable(name)}' is not an input"
        )
    for name in fields["sequence_outputs"]:
        problem = f"case {k}: no expected value of the sequence output '{printable(name)}'"
        _require(name in fields["expected"], problem)
    usable = fields["sequences"] or not fields["states"]
    _require(bool(usable), f"case {k} has states, but no input with timesteps")
    lengths = {inputs[name].shape[1:2] for name in fields["sequences"]}
    equal = len(lengths) <= 1 and not lengths & {(), (0,)}
    _require(equal, f"case {k}: the sequences have no timesteps, or different numbers of timesteps")
    values: Json = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return GoldenCase(**values)


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise damaged(problem)


def _require_version(version: Json) -> None:
    whole = type(version) is int and version > 0
    _require(whole, "the format version of the golden cases is not an integer of at least 1")
    if version > VERSION:
        raise GoldenCasesError(
            f"the golden cases have format version {version}, and this keras-norm reads version "
            f"{VERSION}. Update keras-norm"
        )


def _without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Make a dict of a JSON object; raise GoldenCasesError if a key occurs twice.

    JSON parsers differ in the value of a repeated key.
    """
    fields: dict[str, Json] = {}
    for key, value in pairs:
        _require(key not in fields, f"the JSON text has the key '{printable(key)}' twice")
        fields[key] = value
    return fields


def _require_fields(fields: Json, kind: type[GoldenCase | GoldenCases], where: str) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    fits = isinstance(fields, dict) and set(fields) == names
    _require(fits, f"the fields of {where} are not {', '.join(sorted(names))}")


def _require_texts(fields: dict[str, Json], names: Iterable[str]) -> None:
    for name in names:
        _require(isinstance(fields[name], str), f"the field '{printable(name)}' is not text")


# The operations of TensorFlow that a SavedModel of a stranger may run. ----------------------------

# Every operation in this list computes with its inputs, or with variables, lookup tables and random
# numbers of the model. No operation here accesses files, the Python process, other programs or
# other machines. An operation that is not in the list is not run: also an operation that a later
# TensorFlow adds. `tests/export/golden_cases/test_allowed_ops.py` compares the list with the
# registry of TensorFlow.
OPS = frozenset(
    """
    Abs AccumulateNV2 Acos Acosh Add AddN AddV2 AdjustContrast AdjustContrastv2 AdjustHue
    AdjustSaturation All Angle AnonymousHashTable AnonymousMutableDenseHashTable
    AnonymousMutableHashTable AnonymousMutableHashTableOfTensors Any ApplyAdaMax ApplyAdadelta
    ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign ApplyCenteredRMSProp ApplyFtrl
    ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign ApplyProximalAdagrad
    ApplyProximalGradientDescent ApplyRMSProp ApproxTopK ApproximateEqual ArgMax ArgMin AsString
    Asin Asinh Assert Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp
    AssignVariableOp Atan Atan2 Atanh AudioMicrofrontend AudioSpectrogram AvgPool AvgPool3D
    AvgPool3DGrad AvgPoolGrad BandedTriangularSolve BatchCholesky BatchCholeskyGrad BatchFFT
    BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D BatchMatMul BatchMatMulV2 BatchMatMulV3
    BatchMatrixBandPart BatchMatrixDeterminant BatchMatrixDiag BatchMatrixDiagPart
    BatchMatrixInverse BatchMatrixSetDiag BatchMatrixSolve BatchMatrixSolveLs
    BatchMatrixTriangularSolve BatchNormWithGlobalNormalization BatchNormWithGlobalNormalizationGrad
    BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd BatchToSpace BatchToSpaceND BesselI0
    BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0
    BesselY1 Betainc BiasAdd BiasAddGrad BiasAddV1 Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor
    BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 BroadcastArgs BroadcastGradientArgs
    BroadcastTo Bucketize CSRSparseMatrixComponents CSRSparseMatrixToDense
    CSRSparseMatrixToSparseTensor CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss CTCLossV2 Case Cast
    Ceil CheckNumerics CheckNumericsV2 Cholesky CholeskyGrad ClipByValue CombinedNonMaxSuppression
    Complex ComplexAbs CompositeTensorVariantFromComponents CompositeTensorVariantToComponents
    ComputeAccidentalHits Concat ConcatOffset ConcatV2 Conj ConjugateTranspose Const ControlTrigger
    Conv Conv2D Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv2DBackpropInput
    Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput
    Conv3DBackpropInputV2 Cos Cosh CountUpTo CropAndResize CropAndResizeGradBoxes
    CropAndResizeGradImage Cross CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3
    CudnnRNNCanonicalToParams CudnnRNNCanonicalToParamsV2 CudnnRNNParamsSize
    CudnnRNNParamsToCanonical CudnnRNNParamsToCanonicalV2 CudnnRNNV2 CudnnRNNV3 Cumprod Cumsum
    CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute Dawsn DecodeAndCropJpeg DecodeBase64
    DecodeBmp DecodeCSV DecodeCompressed DecodeGif DecodeImage DecodeJSONExample DecodeJpeg
    DecodeJxl DecodePaddedRaw DecodePng DecodeRaw DecodeWav DecodeWebP DenseBincount
    DenseCountSparseOutput DenseToCSRSparseMatrix DenseToDenseSetOperation DenseToSparseSetOperation
    DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Dequantize DeserializeManySparse DeserializeSparse
    DestroyResourceOp DeviceIndex Diag DiagPart Digamma Dilation2D Dilation2DBackpropFilter
    Dilation2DBackpropInput DisableCopyOnRead Div DivNoNan DrawBoundingBoxes DrawBoundingBoxesV2
    DynamicPartition DynamicStitch EditDistance Eig Einsum Elu EluGrad Empty EmptyTensorList
    EmptyTensorMap EncodeBase64 EncodeJpeg EncodeJpegVariableQuality EncodePng EncodeWav EnsureShape
    Enter Equal Erf Erfc Erfinv EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractGlimpse
    ExtractGlimpseV2 ExtractImagePatches ExtractJpegShape ExtractVolumePatches FFT FFT2D FFT3D FFTND
    FakeParam FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
    FakeQuantWithMinMaxVarsPerChannelGradient Fill Fingerprint Floor FloorDiv FloorMod
    FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad FresnelCos
    FresnelSin FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3
    FusedBatchNormV2 FusedBatchNormV3 FusedPadConv2D FusedResizeAndPadConv2D GRUBlockCell
    GRUBlockCellGrad Gather GatherNd GatherV2 Greater GreaterEqual GuaranteeConst HSVToRGB HashTable
    HashTableV2 HistogramFixedWidth IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND Identity
    IdentityN If Igamma IgammaGradA Igammac Imag ImageProjectiveTransformV2
    ImageProjectiveTransformV3 InTopK InTopKV2 InitializeTable InitializeTableV2 Inv InvGrad Invert
    InvertPermutation IsFinite IsInf IsNan IsVariableInitialized IsotonicRegression L2Loss LRN
    LRNGrad LSTMBlockCell LSTMBlockCellGrad LeakyRelu LeakyReluGrad LeftShift Less LessEqual Lgamma
    LinSpace ListDiff Log Log1p LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr
    LookupTableExport LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport
    LookupTableImportV2 LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize
    LookupTableSizeV2 LoopCond LowerBound Lu MapDefun MatMul MatrixBandPart MatrixDeterminant
    MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
    MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
    MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max MaxPool MaxPool3D
    MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2
    MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax
    Maximum Mean Merge Mfcc Min Minimum MirrorPad MirrorPadGrad Mod Mul MulNoNan Multinomial
    MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableHashTableV2 Ndtri Neg NextAfter NextIteration NoOp
    NonDeterministicInts NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps NotEqual NthElement OneHot
    OnesLike OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone Pack Pad PadV2
    ParallelConcat ParallelDynamicStitch ParameterizedTruncatedNormal ParseExample ParseExampleV2
    ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample
    ParseTensor PartitionedCall Placeholder PlaceholderV2 PlaceholderWithDefault Polygamma
    PopulationCount Pow PreventGradient Prod Qr QuantizeAndDequantize QuantizeAndDequantizeV2
    QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad
    QuantizeDownAndShrinkRange QuantizeV2 QuantizedAdd QuantizedAvgPool
    QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd QuantizedConcat QuantizedConcatV2
    QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize
    QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias
    QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize
    QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize
    QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias
    QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize
    QuantizedInstanceNorm QuantizedMatMul QuantizedMatMulWithBias
    QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
    QuantizedMaxPool QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedReshape
    QuantizedResizeBilinear RFFT RFFT2D RFFT3D RFFTND RGBToHSV RaggedBincount
    RaggedCountSparseOutput RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather
    RaggedRange RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor
    RaggedTensorToVariant RaggedTensorToVariantGradient RandomCrop RandomGamma RandomGammaGrad
    RandomIndexShuffle RandomPoisson RandomPoissonV2 RandomShuffle RandomStandardNormal
    RandomUniform RandomUniformInt Range Rank ReadVariableOp Real RealDiv Reciprocal ReciprocalGrad
    ReduceJoin RegexFullMatch RegexReplace Relu Relu6 Relu6Grad ReluGrad RequantizationRange
    RequantizationRangePerChannel Requantize RequantizePerChannel Reshape ResizeArea ResizeBicubic
    ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor
    ResizeNearestNeighborGrad ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad
    ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad
    ResourceApplyAddSign ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2
    ResourceApplyGradientDescent ResourceApplyKerasMomentum ResourceApplyMomentum
    ResourceApplyPowerSign ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent
    ResourceApplyRMSProp ResourceCountUpTo ResourceGather ResourceGatherNd ResourceScatterAdd
    ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd
    ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate
    ResourceScatterSub ResourceScatterUpdate ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad
    ResourceSparseApplyAdagradDA ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp
    ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum
    ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad
    ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp ResourceStridedSliceAssign
    Reverse ReverseSequence ReverseV2 RightShift Rint RngReadAndSkip RngSkip Roll Round Rsqrt
    RsqrtGrad SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 ScaleAndTranslate
    ScaleAndTranslateGrad ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNd
    ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdNonAliasingAdd ScatterNdSub ScatterNdUpdate
    ScatterSub ScatterUpdate SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd
    SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Selu
    SeluGrad SerializeManySparse SerializeSparse SerializeTensor SetSize Shape ShapeN
    ShardedFilename Sigmoid SigmoidGrad Sign Sin Sinh Size Slice Snapshot SobolSample Softmax
    SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad SpaceToBatch
    SpaceToBatchND SpaceToDepth SparseAdd SparseAddGrad SparseApplyAdadelta SparseApplyAdagrad
    SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp SparseApplyFtrl
    SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad
    SparseApplyProximalGradientDescent SparseApplyRMSProp SparseBincount SparseConcat
    SparseCountSparseOutput SparseCross SparseCrossHashed SparseCrossV2 SparseDenseCwiseAdd
    SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseMatMul
    SparseMatrixAdd SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ SparseMatrixOrderingAMD
    SparseMatrixSoftmax SparseMatrixSoftmaxGrad SparseMatrixSparseCholesky SparseMatrixSparseMatMul
    SparseMatrixTranspose SparseMatrixZeros SparseReduceMax SparseReduceMaxSparse SparseReduceSum
    SparseReduceSumSparse SparseReorder SparseReshape SparseSegmentMean SparseSegmentMeanGrad
    SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
    SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments
    SparseSlice SparseSliceGrad SparseSoftmax SparseSoftmaxCrossEntropyWithLogits
    SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul
    SparseTensorToCSRSparseMatrix SparseToDense SparseToSparseSetOperation Spence Split SplitV Sqrt
    SqrtGrad Square SquaredDifference Squeeze Stack StackClose StackCloseV2 StackPop StackPopV2
    StackPush StackPushV2 StackV2 StatefulPartitionedCall StatefulRandomBinomial
    StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
    StatefulUniformFullInt StatefulUniformInt StatelessCase StatelessIf StatelessMultinomial
    StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
    StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter
    StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2
    StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
    StatelessRandomUniformV2 StatelessSampleDistortedBoundingBox StatelessShuffle
    StatelessTruncatedNormal StatelessTruncatedNormalV2 StatelessWhile StaticRegexFullMatch
    StaticRegexReplace StochasticCastToInt StopGradient StridedSlice StridedSliceAssign
    StridedSliceGrad StringFormat StringJoin StringLength StringLower StringNGrams StringSplit
    StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
    StringToNumber StringUpper Sub Substr Sum Svd Switch Tan Tanh TanhGrad TensorArray
    TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat TensorArrayConcatV2
    TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGrad
    TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayPack TensorArrayRead
    TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3
    TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit TensorArraySplitV2
    TensorArraySplitV3 TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite
    TensorArrayWriteV2 TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2
    TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
    TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
    TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem
    TensorListSplit TensorListStack TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup
    TensorMapSize TensorMapStackKeys TensorScatterAdd TensorScatterMax TensorScatterMin
    TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TileGrad ToBool TopK TopKV2
    Transpose TridiagonalMatMul TridiagonalSolve TruncateDiv TruncateMod TruncatedNormal
    UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode
    UniformDequantize UniformQuantize UniformQuantizedAdd UniformQuantizedClipByValue
    UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot
    UniformQuantizedDotHybrid UniformRequantize Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    Unpack UnravelIndex UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentProd UnsortedSegmentSum UpperBound VarHandleOp VarIsInitializedOp Variable
    VariableShape VariableV2 Where While Xdivy XlaBroadcastHelper XlaCallModule XlaConv XlaConvV2
    XlaDot XlaDotV2 XlaDynamicSlice XlaDynamicUpdateSlice XlaEinsum XlaGather XlaKeyValueSort
    XlaOptimizationBarrier XlaPad XlaReduce XlaReducePrecision XlaReduceWindow XlaRngBitGenerator
    XlaScatter XlaSelectAndScatter XlaSelfAdjointEig XlaSort XlaSvd XlaVariadicReduce
    XlaVariadicReduceV2 XlaVariadicSort Xlog1py Xlogy ZerosLike Zeta
    """.split()  # noqa: SIM905
)


def is_allowed(op: str) -> bool:
    """Return whether a SavedModel may run an operation, whatever the inputs of the operation are.

    Args:
        op: name of the operation, such as "MatMul".
    """
    return op in OPS


# Follow data and calls through the graph of a SavedModel. -----------------------------------------

# Operations that call the function in their attribute `f`, with their own inputs as arguments.
CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])

# Messages of TensorFlow: MetaGraphDef, TensorInfo and NodeDef. A function is a FunctionDef, or None
# for the nodes outside functions.
MetaGraph: TypeAlias = Any
TensorInfo: TypeAlias = Any
Node: TypeAlias = Any
Function: TypeAlias = Any
# A function ("name", "") or a node outside functions ("", "name").
Unit: TypeAlias = tuple[str, str]
# The name of a function ("" outside functions) and the name of a tensor.
Place: TypeAlias = tuple[str, str]
# The source of a value: a node outside functions by name, an object of the SavedModel by index,
# CONSTANT for a constant in a function, or None for a value that a caller may choose.
Origin: TypeAlias = str | int | None
CONSTANT = "^"  # no node has this name
# Operations that make a path of other paths. The saver uses them for the names of new checkpoints.
JOINS = frozenset(
    ["Pack", "Select", "SelectV2", "ShardedFilename", "StaticRegexFullMatch", "StringJoin"]
)


def nodes_with_functions(graph: MetaGraph) -> Iterator[tuple[Function, Node]]:
    """Yield (function, node) for every node; the function is None for a node outside functions.

    Args:
        graph: a graph of a SavedModel.
    """
    yield from ((None, node) for node in graph.graph_def.node)
    for function in graph.graph_def.library.function:
        yield from ((function, node) for node in function.node_def)


def unit_of(function: Function, node: Node) -> Unit:
    """Return what runs as a whole: the function of a node, or the node outside functions."""
    return (function.signature.name, "") if function else ("", node.name)


class DataFlow:
    """The calls and the data flow in the graph of a SavedModel, from node to node.

    Args:
        graph: a graph of a SavedModel.
    """

    def __init__(self, graph: MetaGraph) -> None:
        self._graph = graph
        self.functions = {f.signature.name: f for f in graph.graph_def.library.function}
        self._nodes: dict[Place, Node] = {}
        self._needs: dict[Unit, set[Unit]] = {}
        # Function -> the nodes that name the function, with the functions of these nodes.
        self._callers: dict[str, list[tuple[str, Node]]] = {}
        # TensorFlow's loaders differ in the function that they take if two have one name.
        self._is_ambiguous = len(self.functions) < len(graph.graph_def.library.function)
        for function, node in nodes_with_functions(graph):
            scope = function.signature.name if function else ""
            self._is_ambiguous |= (scope, node.name) in self._nodes
            self._nodes[scope, node.name] = node
            called = self.functions.keys() & {node.op, *_named_functions(node)}
            for name in called:
                self._callers.setdefault(name, []).append((scope, node))
            needs = self._needs.setdefault(unit_of(function, node), set())
            needs |= {(name, "") for name in called}
            if not scope:
                needs |= {("", node_name(tensor)) for tensor in node.input}
        self._captured = _find_captured(graph)
        signatures = graph.signature_def.values()
        # A caller passes values for these nodes, in place of the values that the graph computes.
        inputs = (tensor for s in signatures for tensor in s.inputs.values())
        outputs = (tensor for s in signatures for tensor in s.outputs.values())
        self._fed = {node_name(name) for tensor in inputs for name in _tensor_names(tensor)}
        self._run = {("", node_name(name)) for tensor in outputs for name in _tensor_names(tensor)}
        for collection in graph.collection_def.values():  # such as the initialization of the file
            self._run |= {("", node_name(name)) for name in collection.node_list.value}
        self._run |= {(name, "") for name in self._captured}

    def find_units_of(self, tensor: str, other: str) -> set[Unit]:
        """Find the functions, and the nodes outside functions, that run for one tensor only.

        Args:
            tensor: a tensor of the saver: `save_tensor_name` or `restore_op_name`.
            other: the other tensor of the saver.
        """
        if self._is_ambiguous:
            return set()
        own = self._closure({("", node_name(tensor))})
        run = self._run | {("", node_name(other))}
        return own - self._closure(run | (self._needs.keys() - own))

    def find_assets(self) -> set[Origin]:
        """Find the nodes and objects whose value is the path of an asset, which a loader passes."""
        found: set[Origin] = set()
        for asset in self._graph.asset_file_def:
            node = self._nodes.get(("", node_name(asset.tensor_info.name)))
            if node is not None and node.op == "Placeholder":
                found.add(node.name)
        objects = enumerate(self._graph.object_graph_def.nodes)
        return found | {index for index, o in objects if o.WhichOneof("kind") == "asset"}

    def find_origins(
        self, function: str, tensor: str, through: Collection[str] = ()
    ) -> set[Origin]:
        """Find all sources of a tensor's value, through identities, arguments and variables.

        Args:
            function: name of the function of the tensor; "" for a tensor outside functions.
            tensor: name of the tensor.
            through: operations whose inputs are followed too.
        """
        origins: set[Origin] = {None} if self._is_ambiguous else set()
        visited: set[Place] = set()
        pending = [(function, tensor)]
        while pending:
            if (place := pending.pop()) not in visited:
                visited.add(place)
                is_argument = place[0] and ":" not in place[1]
                before, found = (
                    self._pass_argument(*place) if is_argument else self._pass(*place, through)
                )
                pending += before
                origins |= found
        return origins

    def _pass(
        self, function: str, tensor: str, through: Collection[str]
    ) -> tuple[list[Place], set[Origin]]:
        """Return the tensors whose values a node passes on, and the origins that are the node."""
        node = self._nodes.get((function, node_name(tensor)))
        if node is None or (not function and node.name in self._fed):
            return [], {None}
        if node.op == "Identity":
            return [(function, data_input(node, 0))], set()
        if node.op in through:
            return [(function, tensor) for tensor in _data_inputs(node)], set()
        if function:
            return [], {CONSTANT if node.op == "Const" else None}
        if node.op == "ReadVariableOp":
            values = self._find_assigned(node_name(data_input(node, 0)))
            return [("", value) for value in values], set() if values else {None}
        return [], {node.name}

    def _pass_argument(self, function: str, argument: str) -> tuple[list[Place], set[Origin]]:
        """Return the tensors and the objects that are passed as an argument of a function."""
        names = [entry.name for entry in self.functions[function].signature.input_arg]
        if argument not in names:
            return [], {None}
        index, before, origins = names.index(argument), [], set[Origin]()
        for caller, node in self._callers.get(function, ()):
            called = node.attr["f"].func.name if node.op in CALLS else node.op
            if called == function:
                before.append((caller, data_input(node, index)))
            else:
                origins.add(None)
        if (captured := self._captured.get(function)) is not None:
            # The last arguments are captured objects. A caller passes the arguments before them.
            index -= len(names) - len(captured)
            origins.add(captured[index] if index >= 0 else None)
        return before, origins

    def _find_assigned(self, variable: str) -> list[str]:
        """Find the tensors that are assigned to a variable; [] if more may change the variable."""
        handle = self._nodes.get(("", variable))
        if handle is None or variable in self._fed or handle.op != "VarHandleOp":
            return []
        handles = [node for node in self._nodes.values() if node.op == "VarHandleOp"]
        if [_resource(node) for node in handles].count(_resource(handle)) > 1:
            return []
        values = []
        for (function, _), node in self._nodes.items():
            if function or variable not in map(node_name, _data_inputs(node)):
                continue
            if node.op == "AssignVariableOp":
                values.append(data_input(node, 1))
            elif node.op not in ("ReadVariableOp", "VarIsInitializedOp"):
                return []
        return values

    def _closure(self, units: Iterable[Unit]) -> set[Unit]:
        """Return the given nodes and functions, and all nodes and functions that they run."""
        found: set[Unit] = set()
        pending = [*units]
        while pending:
            if (unit := pending.pop()) not in found:
                found.add(unit)
                pending += self._needs.get(unit, ())
        return found


def _find_captured(graph: MetaGraph) -> dict[str, list[int]]:
    """Find the functions that a loader can run, and the objects that each function captures."""
    library, objects = graph.graph_def.library, graph.object_graph_def
    found = {name: [*f.bound_inputs] for name, f in objects.concrete_functions.items()}
    names = [name for node in objects.nodes for name in node.function.concrete_functions]
    names += [node.bare_concrete_function.concrete_function_name for node in objects.nodes]
    names += [gradient.gradient_func for gradient in library.gradient]
    names += [gradient.gradient_func for gradient in library.registered_gradients]
    # TensorFlow's optimizer replaces a function by another function of the same interface.
    names += [f.signature.name for f in library.function if "api_implements" in f.attr]
    return {name: [] for name in names} | found


def node_name(tensor: str) -> str:
    """Return the name of the node of a tensor: "a" for "a:0" and "^a"."""
    return tensor.lstrip("^").partition(":")[0]


def _data_inputs(node: Node) -> list[str]:
    """Return the inputs of a node without its control inputs."""
    return [tensor for tensor in node.input if not tensor.startswith("^")]


def data_input(node: Node, index: int) -> str:
    """Return the name of a node's input, or "" if a damaged node lacks this input."""
    return next(iter(_data_inputs(node)[index : index + 1]), "")


def _resource(handle: Node) -> bytes:
    """Return the name under which the variable of a handle is shared."""
    name = handle.attr.get("shared_name")
    return (name.s if name else b"") or handle.name.encode()


def _tensor_names(tensor: TensorInfo) -> list[str]:
    """Return the names of the tensors in an input or output of a signature: of its components."""
    sparse = tensor.coo_sparse
    names = [sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name]
    return [tensor.name, *names, *(each.name for each in tensor.composite_tensor.components)]


def _named_functions(node: Node) -> Iterator[str]:
    """Yield the names of the functions in a node's attributes, such as the body of a loop.

    A named function has attributes too, which can name more functions.
    """
    for attribute in node.attr.values():
        for function in (attribute.func, *attribute.list.func):
            yield function.name
            yield from _named_functions(function)


# Find operations of a SavedModel that may access files, the Python process or other machines. -----

# Operations that write and read the variables of every SavedModel. A loader restores the variables
# and never saves them, so no function that a loader runs may reach one of the first two operations.
SAVE_OPS = frozenset(["SaveV2", "MergeV2Checkpoints"])
RESTORE_OP = "RestoreV2"
# Operations that fill a lookup table from a text file. The second input is the path of the file.
TABLE_FROM_FILE = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])
# The streams of the operation PrintV2 that are no file, and that carry no result of a program.
LOGS = frozenset([b"stderr", b"log(info)", b"log(warning)", b"log(error)"])
# Operations that make a tensor of bytes in the file. With the types DT_RESOURCE and DT_VARIANT, the
# tensor can name a resource of another model.
FROM_BYTES, HANDLES = frozenset(["Const", "ParseTensor"]), frozenset([20, 21])


def find_unsafe_ops(graph: MetaGraph) -> dict[str, list[str]]:
    """Find the operations that may access files, the Python process or other machines.

    Safe are the operations of `allowed_ops`, and three kinds of operations with a known path: the
    saver restores the variables from the path that the loader gives; nothing that a loader runs
    saves them; and a lookup table is filled from an asset, which is inside the SavedModel's folder.

    Args:
        graph: a graph of a SavedModel.

    Returns:
        Operation -> names of its nodes; "asset" -> paths of assets outside the folder.
    """
    outside = [a.filename for a in graph.asset_file_def if _is_outside(a.filename)]
    found: dict[str, list[str]] = {"asset": outside} if outside else {}
    flow, saver = DataFlow(graph), graph.saver_def
    saving = flow.find_units_of(saver.save_tensor_name, saver.restore_op_name)
    restoring = flow.find_units_of(saver.restore_op_name, saver.save_tensor_name)
    filename, assets = {node_name(saver.filename_tensor_name)}, flow.find_assets()
    for function, node in nodes_with_functions(graph):
        scope, unit = function.signature.name if function else "", unit_of(function, node)
        if node.op in SAVE_OPS:
            origins = flow.find_origins(scope, data_input(node, 0), JOINS)
            safe = unit in saving and origins >= filename and None not in origins
        elif node.op == RESTORE_OP:
            origins = flow.find_origins(scope, data_input(node, 0))
            safe = unit in restoring and origins == filename
        elif node.op in TABLE_FROM_FILE:
            origins = flow.find_origins(scope, data_input(node, 1))
            safe = bool(origins) and origins <= assets
        elif node.op == "PrintV2":
            stream = node.attr.get("output_stream")
            safe = stream is None or stream.s in LOGS
        elif node.op in FROM_BYTES:
            safe = not any(attribute.type in HANDLES for attribute in node.attr.values())
        else:
            safe = is_allowed(node.op) or node.op in flow.functions
        # In a function, the caller chooses the value of such an attribute.
        is_open = any(attribute.placeholder for attribute in node.attr.values())
        if is_open or not safe:
            found.setdefault(node.op, []).append(node.name)
    return found


def describe_unsafe_ops(ops: Mapping[str, Iterable[str]]) -> str:
    """Describe operations and their nodes: "WriteFile in a/WriteFile, b/WriteFile".

    Args:
        ops: operation -> names of its nodes.
    """
    return "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in ops.items())


def _is_outside(path: str) -> bool:
    """Return whether the path of an asset can leave the folder of the assets, on any system."""
    kinds = pathlib.PurePosixPath(path), pathlib.PureWindowsPath(path)
    return any(kind.anchor or ".." in kind.parts for kind in kinds)


# Find an artifact and its golden cases, hash its files, and load it in its runtime. ---------------

# Golden cases are stored in a SavedModel's folder; beside a TFLite or ONNX file, in a file with its
# name and SUFFIX; or in an archive at the end of a TFLite file.
FILE_NAME = "golden.npz"
IN_FOLDER = pathlib.PurePath("assets.extra", FILE_NAME)
SUFFIX = ".golden.npz"
# Files and folders of a SavedModel whose content is hashed. Other programs may add further files.
HASHED = ("saved_model.pb", "fingerprint.pb", "variables", "assets")
# First bytes of .npz and .npy files.
NPZ_BYTES, NPY_BYTES = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
# Characters in a path that TensorFlow's loader reads as a pattern of file names.
PATTERN = frozenset("*?[\\") if os.sep == "/" else frozenset("*?[")


def golden_cases_path(path: pathlib.Path) -> pathlib.Path:
    """Return the path of the golden cases of an artifact, in its folder or beside its file.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
    """
    return path / IN_FOLDER if path.is_dir() else path.with_name(path.name + SUFFIX)


def read_golden_cases(path: pathlib.Path, file: pathlib.Path | None = None) -> GoldenCases:
    """Find and read the golden cases of an artifact.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        file: file of the golden cases; None for the path at which exporters write it.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable.
    """
    path = resolve_version(path)
    if path.suffix in (".keras", ".h5"):
        raise GoldenCasesError(
            f"{path} is a Keras model, not an exported file. Export it, and verify the exported "
            f"file: keras-norm export model.keras --to DIR"
        )
    usual = golden_cases_path(path)
    try:
        if file is not None:
            require_file(file)
        found = file or usual
        if found.is_file():
            require_size(found.stat().st_size)
            return parse_golden_cases(found.read_bytes())
        if _archive_offset(path) is not None:
            return parse_golden_cases(_unpack_inside(path))
    except OSError as error:
        raise GoldenCasesError(printable_error(error)) from error
    if path.suffix in (".npz", ".npy"):
        artifact = path.name.removesuffix(SUFFIX)
        raise GoldenCasesError(
            f"{path} is a file of arrays, not an exported file. Give the exported file"
            + (f": {path.with_name(artifact)}" if artifact != path.name else "")
        )
    raise GoldenCasesError(
        f"{path} has no golden cases: there is no {usual.name}. Give the file of the golden "
        "cases, or export the model again"
    )


def resolve_version(path: pathlib.Path) -> pathlib.Path:
    """Return the path of an artifact; in a folder of versions, the path of the highest version.

    Args:
        path: a SavedModel's folder, a folder of numbered versions, or a TFLite or ONNX file.

    Raises:
        GoldenCasesError: the path does not exist, or cannot be read.
    """
    try:
        if not path.exists():
            raise GoldenCasesError(f"{path}: no such file or folder")
        if path.is_dir() and not (path / "saved_model.pb").is_file():
            found = [file.parent for file in path.glob("*/saved_model.pb")]
            versions = {int(folder.name): folder for folder in found if folder.name.isdecimal()}
            return versions[max(versions)] if versions else path
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {error.strerror}") from error
    return path


def hash_files(path: pathlib.Path) -> dict[str, str]:
    """Hash the files of an artifact that determine its outputs.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file. Golden cases at the end of a TFLite
            file are not hashed.

    Returns:
        SHA-256 hashes, by the name of each file in a SavedModel's folder; for a file by "".
    """
    if path.is_dir():
        return {
            file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(path.rglob("*"))
            if file.is_file() and file.relative_to(path).parts[0] in HASHED
        }
    return {"": hashlib.sha256(read_without_golden_cases(path)).hexdigest()}


def read_without_golden_cases(path: pathlib.Path) -> bytes:
    """Return the content of a TFLite or ONNX file, without golden cases at its end.

    Args:
        path: a TFLite or ONNX file.
    """
    return path.read_bytes()[: _archive_offset(path)]


def require_file(path: pathlib.Path) -> None:
    """Raise OSError for a path that is not a readable file.

    Args:
        path: any path.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder.")
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file.")
        if not path.is_file():
            raise OSError(f"{path} is not a file.")
        with path.open("rb"):
            pass
    except OSError as error:
        if error.strerror is None:  # the error was raised above, with a complete message
            raise
        raise type(error)(f"{path} cannot be read: {error.strerror}.") from error


def require_arrays(path: pathlib.Path) -> None:
    """Raise OSError or ValueError for a path that is not an .npz or .npy file.

    Args:
        path: any path.
    """
    try:
        require_file(path)
    except IsADirectoryError as error:
        raise IsADirectoryError(f"{error} Give the .npz or .npy files of the folder.") from error
    with path.open("rb") as file:
        begin = file.read(len(NPY_BYTES))
    if not begin.startswith((*NPZ_BYTES, NPY_BYTES)):
        raise ValueError(
            f"{path} is not an .npz or .npy file. Write one with "
            "numpy.savez(file, input_name=array)."
        )


def require_literal(path: pathlib.Path) -> pathlib.Path:
    """Return a SavedModel's path; raise ValueError if TensorFlow reads the path as a pattern.

    Args:
        path: a SavedModel's folder, which need not exist.

    Raises:
        ValueError: the path contains a character of `PATTERN`.
    """
    if found := sorted(PATTERN & set(str(path))):
        raise ValueError(
            f"TensorFlow reads {' '.join(found)} in the path of a SavedModel as a pattern, and may "
            f"not find its weights; received {path}. Choose another path"
        )
    return path


def _archive_offset(path: pathlib.Path) -> int | None:
    """Return the byte offset of the golden cases in a TFLite file; None if it contains none."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            archive.getinfo(FILE_NAME)
            return min(entry.header_offset for entry in archive.infolist())
    # The last bytes of a model may look like a zip archive. The zip parser may then raise any
    # exception.
    except Exception:
        return None


def _unpack_inside(path: pathlib.Path) -> bytes:
    """Unpack the golden cases at the end of a TFLite file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return unpack_entry(archive, archive.getinfo(FILE_NAME))
    except GoldenCasesError:
        raise
    # The parser of a damaged archive may raise any exception.
    except Exception as error:
        raise damaged(printable_error(error)) from error


def open_artifact(path: pathlib.Path) -> RunSignature:
    """Load an artifact in its runtime.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.

    Returns:
        A function from a signature's name and its inputs to its outputs.

    Raises:
        GoldenCasesError: the runtime is not installed, or a SavedModel may access files, the Python
            process or other machines.
        Exception: any exception of the runtime, if it cannot load the file.
    """
    if path.is_dir():
        return RUNTIMES["saved_model"](path)
    return RUNTIMES["onnx" if path.suffix == ".onnx" else "tflite"](path)


def _open_saved_model(path: pathlib.Path) -> RunSignature:
    try:
        import tensorflow as tf
    except ImportError as error:
        raise _not_installed(path, "TensorFlow", "tensorflow") from error
    from tensorflow.core.protobuf import saved_model_pb2

    if not (path / "saved_model.pb").is_file():
        raise GoldenCasesError(
            f"{path} is not a SavedModel: it has neither saved_model.pb nor numbered versions"
        )
    try:
        require_literal(path)
    except ValueError as error:
        raise GoldenCasesError(str(error)) from error
    saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    for graph in saved.meta_graphs:
        if ops := find_unsafe_ops(graph):
            raise GoldenCasesError(
                f"{path} may access files, the Python process or other machines, so it is not run: "
                f"{describe_unsafe_ops(ops)}"
            )
    loaded = tf.saved_model.load(str(path))

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in loaded.signatures:
            raise ValueError(f"the SavedModel has no signature {signature}")
        function = loaded.signatures[signature]
        specs = function.structured_input_signature[1]
        outputs = function(**{n: tf.cast(a, specs[n].dtype) for n, a in inputs.items()})
        wide = {n: tf.cast(t, "float32") for n, t in outputs.items() if t.dtype == tf.bfloat16}
        return {name: tensor.numpy() for name, tensor in (outputs | wide).items()}

    return run


def _open_tflite(path: pathlib.Path) -> RunSignature:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise _not_installed(path, "LiteRT", "ai-edge-litert") from error
    interpreter = Interpreter(model_path=str(path))
    runners: dict[str, Callable[..., Arrays]] = {}

    def run(signature: str, inputs: Arrays) -> Arrays:
        if signature not in runners:
            runners[signature] = interpreter.get_signature_runner(signature)
        return runners[signature](**inputs)

    return run


def _open_onnx(path: pathlib.Path) -> RunSignature:
    try:
        import onnxruntime
    except ImportError as error:
        raise _not_installed(path, "ONNX Runtime", "onnxruntime") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(signature: str, inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _not_installed(path: pathlib.Path, runtime: str, package: str) -> GoldenCasesError:
    return GoldenCasesError(
        f"{path} needs {runtime}, which is not installed: pip install {package}"
    )


# Name of a built-in format -> function that loads an artifact of the format.
RUNTIMES: dict[str, Callable[[pathlib.Path], RunSignature]] = {
    "saved_model": _open_saved_model,
    "tflite": _open_tflite,
    "onnx": _open_onnx,
}

# Run an artifact on its golden cases, and compare the outputs with the expected outputs. ----------

PASSED, FAILED, WRONG_USE = 0, 1, 2


def verify(
    path: str | os.PathLike[str],
    golden_cases: GoldenCases | str | os.PathLike[str] | None = None,
    run: RunSignature | None = None,
) -> list[str]:
    """Run an artifact on its golden cases, and compare the outputs with the expected outputs.

    The exporters store golden cases with each artifact. `keras-norm verify` and the standalone
    module `keras_norm_verify` run this function. It needs neither the model nor data: see the guide
    "Verify a file on a device".

    Args:
        path: a SavedModel's folder, a folder of numbered versions (the highest version is run), or
            a TFLite or ONNX file.
        golden_cases: the golden cases, or their file; None for the path at which exporters write
            the file.
        run: another runtime, as a function from a signature's name and its inputs to its outputs.

    Returns:
        The failures, one line each; an empty list if the artifact passes.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, `path` is not an artifact, or
            the runtime is not installed.
        ValueError: an argument has the wrong type.

    Example:
        >>> path = export_tflite(model, "model.tflite")
        >>> verify(path)  # no differences
        []
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be the path of an exported file; received {path!r}")
    if not isinstance(golden_cases, str | os.PathLike | GoldenCases | None):
        received = type(golden_cases).__name__
        raise ValueError(f"golden_cases must be the path of a file; received {received}")
    if run is not None and not callable(run):
        raise ValueError(f"run must be a function of a signature and inputs; received {run!r}")
    path = resolve_version(pathlib.Path(path))
    if not isinstance(golden_cases, GoldenCases):
        file = None if golden_cases is None else pathlib.Path(golden_cases)
        golden_cases = read_golden_cases(path, file)
    require_comparisons(golden_cases.cases)
    try:
        hashes = hash_files(path)
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {printable_error(error)}") from error
    try:
        failures = list(find_failures(golden_cases, run or open_artifact(path)))
    except GoldenCasesError:
        raise
    # A runtime may raise any exception for a damaged file.
    except Exception as error:
        failures = [f"the artifact does not load: {printable_error(error)}"]
    stored = golden_cases.hashes
    changed = [name for name in sorted(hashes | stored) if hashes.get(name) != stored.get(name)]
    if changed:
        names = ", ".join(printable(name or path.name) for name in changed)
        outcome = "It still computes the expected outputs"
        if failures:
            outcome = "It no longer computes the expected outputs"
        failures.insert(
            0,
            f"the artifact was changed after its golden cases were written. {outcome}. "
            f"Changed files: {names}",
        )
    return failures


def find_failures(golden_cases: GoldenCases, run: RunSignature) -> Iterator[str]:
    """Describe each failed output of each golden case in one line.

    Args:
        golden_cases: the golden cases.
        run: the artifact, as a function from a signature's name and its inputs to its outputs.
    """
    for case in golden_cases.cases:
        try:
            actual = {n: np.asarray(array) for n, array in case.compute_outputs(run).items()}
        # A runtime may raise any exception for a file that it cannot run.
        except Exception as error:
            yield f"the artifact fails to run {printable(case.name)}: {printable_error(error)}"
            continue
        for name, expected in case.expected.items():
            if name not in actual:
                yield f"the artifact has no output '{printable(name)}'"
            elif difference := _difference(expected, actual[name], case.atol[name]):
                yield f"at {printable(case.name)}: output '{printable(name)}' {difference}"


def _difference(expected: Array, actual: Array, atol: float) -> str:
    """Describe how an output differs from the expected output; return "" if it does not.

    NaN is equal to an expected NaN.
    """
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind == "S" and actual.dtype.kind in "SO":
        count = int(np.sum(actual.astype(np.bytes_) != expected))
        return f"differs in {count} of {expected.size} texts" if count else ""
    if actual.dtype.kind not in "biuf" or expected.dtype.kind == "S":
        return f"has the dtype {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.kind != "f":
        # Python compares a large integer with a float exactly. NumPy would round the integer.
        count = int(np.sum(actual.astype(object) != expected.astype(object)))
        return f"differs in {count} of {expected.size} values" if count else ""
    e, a = expected.astype("float64"), actual.astype("float64")
    with np.errstate(invalid="ignore"):
        off = np.where((e == a) | (np.isnan(e) & np.isnan(a)), 0.0, np.abs(a - e))
    off = np.where(np.isnan(off), np.inf, off)
    if not off.size or off.max() <= atol:
        return ""
    index = np.unravel_index(int(off.argmax()), e.shape)
    where = ", ".join(map(str, index))
    return (
        f"has the value {a[index]:.6g} at index ({where}), expected {e[index]:.6g}: the difference "
        f"is larger than the tolerance {atol:.2g}"
    )


def print_result(path: str, file: str | None = None) -> int:
    """Verify an artifact, print the result, and return the exit status.

    Args:
        path: a SavedModel's folder, or a TFLite or ONNX file.
        file: file of the golden cases; None for the path at which exporters write it.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, the runtime is not installed, or
            the result cannot be printed.
    """
    golden_cases = read_golden_cases(
        pathlib.Path(path), None if file is None else pathlib.Path(file)
    )
    with without_output():
        failures = verify(path, golden_cases)
    artifact = printable(path, MAX_PRINTED)
    lines = [f"FAIL: {artifact}: {failure}" for failure in failures]
    if not failures:
        reference, cases = printable(golden_cases.reference), golden_cases.cases
        lines = [f"PASS: {artifact} computes {reference}, in {len(cases)} cases:"]
        lines += [f"  {printable(case.signature)}: {printable(case.name)}" for case in cases]
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        sys.stdout = None  # Python would write its buffered output at exit, and fail again
        raise GoldenCasesError(f"the result cannot be written: {error.strerror}") from error
    return FAILED if failures else PASSED


def main(arguments: Sequence[str]) -> int:
    """Verify an artifact from the command line.

    Args:
        arguments: path of the artifact, and optionally the path of its golden cases.

    Returns:
        The exit status.
    """
    if not 1 <= len(arguments) <= 2:
        print("usage: python keras_norm_verify.py ARTIFACT [GOLDEN_CASES.npz]", file=sys.stderr)
        return WRONG_USE
    escape_unknown_letters()
    try:
        return print_result(*arguments)
    except GoldenCasesError as error:
        print(f"keras-norm: {error}", file=sys.stderr)
        return WRONG_USE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
