"""Headers for TensorFlow Lite Micro: g++ builds a header, and the C++ of the guide with it."""

import pathlib
import re
import shutil
import subprocess

import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import keras_norm
from keras_norm.export import export_tflite, write_c_header
from keras_norm.export.formats.tflite.tflite_file import read_signature, read_tflite
from keras_norm.export.formats.tflite.write_c_header import resolver_lines
from keras_norm_verify import read_golden_cases
from tests.export import models

GUIDE = pathlib.Path(__file__).parents[4] / "docs" / "guides" / "microcontrollers.md"
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-rtti", "-fno-exceptions")

# Names of TensorFlow Lite Micro's operations, such as `AddBatchMatMul`.
OPERATIONS = re.findall(
    r"\w+",
    """
Abs Add AddN ArgMax ArgMin AssignVariable AveragePool2D BatchMatMul BatchToSpaceNd BroadcastArgs
BroadcastTo CallOnce Cast Ceil Concatenation Conv2D Cos CumSum DepthToSpace DepthwiseConv2D
Dequantize Div DynamicUpdateSlice Elu EmbeddingLookup Equal Exp ExpandDims Fill Floor FloorDiv
FloorMod FullyConnected Gather GatherNd Greater GreaterEqual HardSwish If L2Normalization L2Pool2D
LeakyRelu Less LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr Logistic MaxPool2D Maximum
Mean Minimum MirrorPad Mul Neg NotEqual Pack Pad PadV2 Prelu Quantize ReadVariable ReduceAll
ReduceMax ReduceMin Relu Relu6 Reshape ResizeBilinear ResizeNearestNeighbor ReverseV2 Round Rsqrt
SelectV2 Shape Sin Slice Softmax SpaceToBatchNd SpaceToDepth Split SplitV Sqrt Square
SquaredDifference Squeeze StridedSlice Sub Sum Svdf Tanh Transpose TransposeConv
UnidirectionalSequenceLSTM Unpack VarHandle While ZerosLike
""",
)
# The declarations of TensorFlow Lite Micro that the header and the guide use. The interpreter
# returns zeros.
RESOLVER = """
#pragma once
namespace tflite {
template <unsigned int count>
struct MicroMutableOpResolver {
  unsigned int added = 0;
%s
};
}
"""
INTERPRETER = """
#pragma once
#include <stddef.h>
enum TfLiteStatus { kTfLiteOk };
namespace tflite {
struct Model { const void* data; };
inline const Model* GetModel(const void* data) { static Model m{data}; return &m; }
struct MicroInterpreter {
  template <class Resolver>
  MicroInterpreter(const Model*, const Resolver&, unsigned char*, size_t) {}
  TfLiteStatus AllocateTensors() { return kTfLiteOk; }
  TfLiteStatus Invoke() { return kTfLiteOk; }
  size_t arena_used_bytes() { return 1; }
  template <class T> T* typed_input_tensor(int) { static T values[64]; return values; }
  template <class T> T* typed_output_tensor(int) { static T values[64]; return values; }
};
}
"""
# Prints everything that the header defines.
PRINT = """
#include <stdio.h>
#include "step.h"
int main() {
  step_resolver resolver;
  step_add_operations(resolver);
  printf("%u %zu %zu\\n", resolver.added, sizeof(step_data), (size_t)step_data % 16);
  for (unsigned char byte : step_data) printf("%d ", byte);
  printf("\\n%d %d %d %d %d\\n", step_in_x, step_in_hidden_h, step_out_y, step_size_in_x,
         step_size_out_y);
  for (int i = 0; i < step_golden_timesteps * step_size_in_x; ++i)
    printf("%.9g ", (double)step_golden_in_x[i]);
  printf("\\n");
  for (float value : step_golden_out_y) printf("%.9g ", (double)value);
}
"""

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture(scope="module")
def include(tmp_path_factory):
    """Write the header files of TensorFlow Lite Micro, with the declarations that are used."""
    folder = tmp_path_factory.mktemp("include")
    methods = "\n".join(f"  void Add{name}() {{ ++added; }}" for name in OPERATIONS)
    for name, text in {
        "micro/micro_mutable_op_resolver.h": RESOLVER % methods,
        "micro/micro_interpreter.h": INTERPRETER,
        "schema/schema_generated.h": "",
    }.items():
        path = folder / "tensorflow" / "lite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def build(include, folder, *sources):
    """Compile C++ files with g++, and return the output of the program."""
    for name, text in sources:
        (folder / name).write_text(text)
    names = [name for name, _ in sources]
    command = ["g++", *FLAGS, f"-I{include}", "-I.", *names, "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run("./program", cwd=folder, capture_output=True, text=True, check=False)


def numbers(line):
    return np.array(line.split(), "float32")


def test_a_header_has_the_file_its_operations_and_a_golden_case(step_only, include, tmp_path):
    _, file = step_only
    write_c_header(file, tmp_path / "step.h")
    lines = build(include, tmp_path, ("main.cc", PRINT)).stdout.splitlines()
    content = file.read_bytes()
    assert lines[0] == f"{len(read_tflite(file).ops)} {len(content)} 0"
    assert bytes(map(int, lines[1].split())) == content
    inputs, outputs = read_signature(file, "step")
    indices = [inputs["x"].index, inputs["hidden_h"].index, outputs["y"].index]
    assert list(map(int, lines[2].split())) == [*indices, 3, 2]
    golden = read_golden_cases(file).cases[1]
    assert golden.inputs["x"].shape == (1, 7, 3)
    np.testing.assert_array_equal(numbers(lines[3]), golden.inputs["x"].ravel())
    np.testing.assert_array_equal(numbers(lines[4]), golden.expected["y"].ravel())


def test_the_program_of_the_guide_builds_with_the_header(include, tmp_path):
    rows = keras.Input((None, 8), name="rows")
    h = keras_norm.LayerNormLSTM(16, return_sequences=True, name="lstm")(rows)
    model = keras.Model(rows, keras.layers.Dense(10, "softmax", name="digit")(h))
    file = export_tflite(model, tmp_path / "model.tflite", signature="step")
    write_c_header(file, tmp_path / "model.h")
    sources = re.findall(r"^```cpp\n(.*?)^```", GUIDE.read_text(), re.M | re.S)
    ran = build(include, tmp_path, *zip(("model.cc", "main.cc"), sources, strict=True))
    assert ran.stdout.startswith("arena: 1 bytes\nlargest difference: 0.")
    assert ran.returncode == 1  # the interpreter of this test returns zeros


def test_golden_cases_inside_the_file_are_not_part_of_the_array(tmp_path):
    file = export_tflite(models.dense(), tmp_path / "m.tflite", golden_cases="inside")
    text = write_c_header(file, tmp_path / "m.h").read_text()
    (size,) = map(int, re.findall(r"m_data\[(\d+)\]", text))
    assert size < file.stat().st_size
    assert "m_golden_in_x[3]" in text  # the golden case with the smallest batch
    assert "m_golden_timesteps" not in text


def test_operations_are_spelled_as_in_tensorflow_lite_micro():
    every = [name for name in vars(schema.BuiltinOperator) if not name.startswith("_")]
    spelled = re.findall(r"resolver\.Add(\w+)\(\);", "\n".join(resolver_lines("m", every)))
    assert set(OPERATIONS) <= set(spelled)


def test_a_file_with_dynamic_lengths_is_refused(recurrent_tflite, tmp_path):
    message = r'input "x" of .* has the shape \(None, None, 3\), .* Export one timestep, signature='
    with pytest.raises(ValueError, match=message):
        write_c_header(recurrent_tflite, tmp_path / "m.h")


def test_a_changed_file_or_one_without_golden_cases_needs_golden_cases_false(step_only, tmp_path):
    file = pathlib.Path(shutil.copy(step_only[1], tmp_path / "m.tflite"))
    with pytest.raises(ValueError, match=r"has no golden cases: there is no m\.tflite\.golden"):
        write_c_header(file, tmp_path / "m.h")
    shutil.copy(f"{step_only[1]}.golden.npz", f"{file}.golden.npz")
    file.write_bytes(file.read_bytes() + bytes(16))
    with pytest.raises(ValueError, match="was changed after its golden cases were written"):
        write_c_header(file, tmp_path / "m.h")
    text = write_c_header(file, tmp_path / "m.h", golden_cases=False).read_text()
    assert "golden" not in text


def test_wrong_paths_are_refused(step_only, tmp_path):
    (tmp_path / "m.h").write_text("theirs")
    with pytest.raises(FileExistsError):
        write_c_header(step_only[1], tmp_path / "m.h")
    with pytest.raises(ValueError, match=r'path must end in "\.h"; received .*m\.c$'):
        write_c_header(step_only[1], tmp_path / "m.c")
    with pytest.raises(ValueError, match=r"m\.h is not a TFLite file"):
        write_c_header(tmp_path / "m.h", tmp_path / "n.h")
    with pytest.raises(FileNotFoundError):
        write_c_header(tmp_path / "missing.tflite", tmp_path / "n.h")
    assert write_c_header(step_only[1], tmp_path / "m.h", overwrite=True).read_text() != "theirs"
