"""The operations of TensorFlow that a SavedModel of a stranger may run."""

# Every operation in these lists computes with its inputs, or with variables, lookup tables and
# random numbers of the model. No operation here accesses files, the Python process, other programs
# or other machines. An operation that is in neither list is not run: also an operation that a later
# TensorFlow adds. `tests/export/golden_cases/test_allowed_ops.py` compares the lists with the
# registry of TensorFlow.

# Beginnings of the names of operations.
FAMILIES = tuple(
    """
    Adjust AnonymousHash AnonymousMutable Apply AssignAdd AssignSub AvgPool BatchCholesky BatchFFT
    BatchIFFT BatchMat BatchNormWith BatchSelfAdjointEig BatchToSpace Bessel BiasAdd BlockLSTM
    BroadcastT CTC Cholesky CompositeTensorVariant Conv2D Conv3D CropAndResize CSRSparseMatrix
    CudnnRNN DepthwiseConv2dNative Dilation2D DrawBoundingBoxes ExtractGlimpse FFT
    FakeQuantWithMinMax FractionalAvgPool FractionalMaxPool FusedBatchNorm GRUBlockCell HashTable
    IFFT IRFFT Igamma ImageProjectiveTransform InTopK LRN LSTMBlockCell LeakyRelu Logical
    LookupTable Matrix MaxPool MirrorPad MutableDenseHashTable MutableHashTable NonMaxSuppression
    Optional Quantize RFFT RaggedB RaggedC RaggedF RaggedG RaggedR RaggedT RandomGamma RandomPoisson
    RandomUniform Relu Requantiz Resize ResourceApply ResourceGather ResourceScatter
    ResourceSparseApply ResourceStridedSlice Reverse Rng SampleDistortedBoundingBox
    ScaleAndTranslate Scatter SegmentM SegmentP SegmentS Selu SparseAdd SparseApply SparseCross
    SparseDense SparseFill SparseMat SparseReduce SparseSegment SparseSlice SparseSoftmax
    SparseSparse SparseTensorDense StackC StackP StatefulRandom StatefulStandardNormal
    StatefulUniform StatelessRandom StatelessTruncatedNormal StridedSlice StringSplit StringTo
    TensorArray TensorList TensorMap TensorScatter UnicodeDecode UniformDequantize UniformQuantize
    UniformRequantize UnsortedSegment
    """.split()  # noqa: SIM905
)
OPS = frozenset(
    """
    Abs AccumulateNV2 Acos Acosh Add AddN AddV2 All Angle Any ApproxTopK ApproximateEqual ArgMax
    ArgMin AsString Asin Asinh Assert Assign AssignVariableOp Atan Atan2 Atanh AudioMicrofrontend
    AudioSpectrogram BandedTriangularSolve BatchSvd Betainc Bincount Bitcast BitwiseAnd BitwiseOr
    BitwiseXor BroadcastArgs BroadcastGradientArgs Bucketize Case Cast Ceil CheckNumerics
    CheckNumericsV2 ClipByValue CombinedNonMaxSuppression Complex ComplexAbs ComputeAccidentalHits
    Concat ConcatOffset ConcatV2 Conj ConjugateTranspose Const ControlTrigger Conv Cos Cosh
    CountUpTo Cross Cumprod Cumsum CumulativeLogsumexp DataFormatDimMap DataFormatVecPermute Dawsn
    DecodeAndCropJpeg DecodeBase64 DecodeBmp DecodeCSV DecodeCompressed DecodeGif DecodeImage
    DecodeJSONExample DecodeJpeg DecodeJxl DecodePaddedRaw DecodePng DecodeRaw DecodeWav DecodeWebP
    DenseBincount DenseCountSparseOutput DenseToCSRSparseMatrix DenseToDenseSetOperation
    DenseToSparseSetOperation DepthToSpace Dequantize DeserializeManySparse DeserializeSparse
    DestroyResourceOp DeviceIndex Diag DiagPart Digamma DisableCopyOnRead Div DivNoNan
    DynamicPartition DynamicStitch EditDistance Eig Einsum Elu EluGrad Empty EmptyTensorList
    EmptyTensorMap EncodeBase64 EncodeJpeg EncodeJpegVariableQuality EncodePng EncodeWav EnsureShape
    Enter Equal Erf Erfc Erfinv EuclideanNorm Exit Exp ExpandDims Expint Expm1 ExtractImagePatches
    ExtractJpegShape ExtractVolumePatches FakeParam Fill Fingerprint Floor FloorDiv FloorMod
    FresnelCos FresnelSin FusedPadConv2D FusedResizeAndPadConv2D Gather GatherNd GatherV2 Greater
    GreaterEqual GuaranteeConst HSVToRGB HistogramFixedWidth Identity IdentityN If Imag
    InitializeTable InitializeTableV2 Inv InvGrad Invert InvertPermutation IsFinite IsInf IsNan
    IsVariableInitialized IsotonicRegression L2Loss LeftShift Less LessEqual Lgamma LinSpace
    ListDiff Log Log1p LogMatrixDeterminant LogSoftmax LoopCond LowerBound Lu MapDefun MatMul Max
    Maximum Mean Merge Mfcc Min Minimum Mod Mul MulNoNan Multinomial Ndtri Neg NextAfter
    NextIteration NoOp NonDeterministicInts NotEqual NthElement OneHot OnesLike Pack Pad PadV2
    ParallelConcat ParallelDynamicStitch ParameterizedTruncatedNormal ParseExample ParseExampleV2
    ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample
    ParseTensor PartitionedCall Placeholder PlaceholderV2 PlaceholderWithDefault Polygamma
    PopulationCount Pow PreventGradient Prod Qr RGBToHSV RandomCrop RandomIndexShuffle RandomShuffle
    RandomStandardNormal Range Rank ReadVariableOp Real RealDiv Reciprocal ReciprocalGrad ReduceJoin
    RegexFullMatch RegexReplace Reshape ResourceCountUpTo RightShift Rint Roll Round Rsqrt RsqrtGrad
    Select SelectV2 SelfAdjointEig SelfAdjointEigV2 SerializeManySparse SerializeSparse
    SerializeTensor SetSize Shape ShapeN ShardedFilename Sigmoid SigmoidGrad Sign Sin Sinh Size
    Slice Snapshot SobolSample Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign
    SoftsignGrad SpaceToBatch SpaceToBatchND SpaceToDepth SparseBincount SparseConcat
    SparseCountSparseOutput SparseReorder SparseReshape SparseSplit SparseTensorToCSRSparseMatrix
    SparseToDense SparseToSparseSetOperation Spence Split SplitV Sqrt SqrtGrad Square
    SquaredDifference Squeeze Stack StackV2 StatefulPartitionedCall StatefulTruncatedNormal
    StatelessCase StatelessIf StatelessMultinomial StatelessParameterizedTruncatedNormal
    StatelessSampleDistortedBoundingBox StatelessShuffle StatelessWhile StaticRegexFullMatch
    StaticRegexReplace StochasticCastToInt StopGradient StringFormat StringJoin StringLength
    StringLower StringNGrams StringStrip StringUpper Sub Substr Sum Svd Switch Tan Tanh TanhGrad
    TensorStridedSliceUpdate Tile TileGrad ToBool TopK TopKV2 Transpose TridiagonalMatMul
    TridiagonalSolve TruncateDiv TruncateMod TruncatedNormal UnicodeEncode UnicodeScript
    UnicodeTranscode Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex
    UpperBound VarHandleOp VarIsInitializedOp Variable VariableShape VariableV2 Where While Xdivy
    XlaBroadcastHelper XlaCallModule XlaConv XlaConvV2 XlaDot XlaDotV2 XlaDynamicSlice
    XlaDynamicUpdateSlice XlaEinsum XlaGather XlaKeyValueSort XlaOptimizationBarrier XlaPad
    XlaReduce XlaReducePrecision XlaReduceWindow XlaRngBitGenerator XlaScatter XlaSelectAndScatter
    XlaSelfAdjointEig XlaSort XlaSvd XlaVariadicReduce XlaVariadicReduceV2 XlaVariadicSort Xlog1py
    Xlogy ZerosLike Zeta
    """.split()  # noqa: SIM905
)


def is_allowed(op: str) -> bool:
    """Return whether a SavedModel may run an operation, whatever the inputs of the operation are.

    Args:
        op: name of the operation, such as "MatMul".
    """
    return op in OPS or op.startswith(FAMILIES)
