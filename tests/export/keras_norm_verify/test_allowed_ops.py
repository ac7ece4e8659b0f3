"""The operations that a SavedModel may run, compared with all operations of TensorFlow."""

import re

import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from keras_norm_verify.allowed_ops import ALLOWED_OPS

# The operations of TensorFlow 2.18 to 2.21 that a SavedModel may not run, by the reason. Every
# operation of the registry was reviewed, and is either here or in `allowed_ops`.
DENIED = {
    "files": r"File(?!name)|Save|Restore|Checkpoints|TextLine|LMDB|Sql|CSVDataset|ImmutableConst"
    r"|Record|Event|Summary|Snapshot(Chunk|Dataset|Nested)|Debug|DumpTensor|RemapMatrix|Remapping"
    r"|Skipgram|CandidateSampler|(En|De)codeProto|Print|Reader",
    "programs and their memory": r"PyFunc|Abort|Sleep|Session|Device(Placement|Arg|Ret)|Deadline"
    r"|Timestamp|CustomCall|WorkerHeartbeat|^_?Copy|DeepCopy|Host|Mesh|SyncDevice|Float32Enabled"
    r"|GraphDefVersion|ResourceHandle|ResourceCreate|ResourceInit|ResourceUsing|_XlaRun|_XlaCompile|XlaLaunch",
    "other machines": r"Rpc|DataService|Send|Recv|RemoteCall|Collective|Nccl|CrossReplica|AllToAll"
    r"|AllReduce|DTensor|Distributed|Replica|ReduceScatter|Relayout",
    "data pipelines and queues": r"Dataset|Iterator|Queue|^Barrier|Stage|Unstage|Unbatch"
    r"|^Batch(Function)?$|(Un)?[Cc]ompressElement|Mutex|MemoryCache|SeedGenerator|IterationCounter|IterId"
    r"|ThreadPool|StatsAggregator|GetOptions|GetElementAt|WindowOp|ComputeBatchSize|ToTensorsMap|FromTensorsMap"
    r"|^(Ordered)?Map(Clear|IncompleteSize|Peek|Size|Unstage)|Accumulator|^SparseConditional",
    "operations of accelerators": r"T[Pp][Uu]|[Ff]eed|SparseCore|SparseDenseMatmul"
    r"|Xla(While|If|Spmd|Sharding|Set|Remove|Replica|Cluster|Concat|Split|SparseGrad|SparseAct|_|All"
    r"|Reduce(Scat|_))|Dedup|Minibatch|Embedding|^Risc|Prelinearize|CooTensor|TopK\w*Unique|KthOrder|MakeUnique"
    r"|XlaDequantize|VariableXla|XlaSparse|Partitioner|UpdateTaskId",
    "operations of old programs": r"^Ref|Temporary|BoostedTrees|Sdca|NegTrain|KMC2|Kmeans"
    r"|NearestNeighbors|Inplace|^For$|SymbolicGradient|GenerateBoundingBox"
    r"|CustomAggregator|TfLite|Calibration|RewriteDataset|MlirPassthrough",
    "operations that only TensorFlow itself makes": r"^_",
    "operations of TensorFlow's tests": r"Attr|Struct|(Int|Float|Input|List|Types?)(s?In|s?Out)\w*"
    r"|^(A|B|None|Old|Fact|Simple|Unary|Binary|Restrict|Foo\d|TypeList\w*|Polymorphic\w*|OutT\w*)$"
    r"|Kernel(Label)|RequiresOlder|ConstructionFails|CheckPinned|Twice|NPolymorphic|NInts"
    r"|NInTwo|^Reserved|Int64Output|TwoRefs|TestString|DtypeWithDefault|DefaultAttrs|FutureDefault",
}
registered = op_def_pb2.OpList.FromString(
    pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
)
NAMES = sorted(op.name for op in registered.op)


def test_every_operation_of_tensorflow_is_either_allowed_or_denied_after_a_review():
    """If a new TensorFlow fails here, read what its new operations do, and add each to a list."""
    reasons = {
        name: [reason for reason, names in DENIED.items() if re.search(names, name)]
        for name in NAMES
    }
    assert [name for name in NAMES if (name in ALLOWED_OPS) == bool(reasons[name])] == []
    assert len(ALLOWED_OPS.intersection(NAMES)) > 900


@pytest.mark.skipif(tf.__version__ < "2.21", reason="an older TensorFlow has fewer operations")
def test_every_name_in_the_list_is_an_operation_of_tensorflow():
    assert ALLOWED_OPS - {*NAMES} == set()


def test_operations_with_files_code_or_machines_and_unknown_operations_are_denied():
    dangerous = """
        ReadFile ImmutableConst SaveV2 RestoreV2 InitializeTableFromTextFileV2 TFRecordDatasetV2
        DatasetFromGraph DebugIdentityV2 CreateSummaryFileWriter EagerPyFunc CollectiveGatherV2
        RpcCall GenerateVocabRemapping DecodeProtoV2 FixedUnigramCandidateSampler Skipgram
        XlaCustomCallV2 AnOperationOfTomorrow ResizeImageFromFileV9 MatrixReadFile
        SparseFillFromCheckpoint StringToFileV3
    """
    assert ALLOWED_OPS.intersection(dangerous.split()) == set()
