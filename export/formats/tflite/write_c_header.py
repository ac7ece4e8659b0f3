"""Write a TFLite file as a C++ header for TensorFlow Lite Micro."""

import math
import os
import pathlib
from collections.abc import Iterable, Iterator

from keras_norm.export.formats.staging import staged
from keras_norm.export.formats.tflite.tflite_file import Tensors, read_signature, read_tflite
from keras_norm.export.signature import SERVING_DEFAULT, STEP, unique
from keras_norm.typing import Json
from keras_norm_verify.artifact import hash_files, read_golden_cases, read_without_golden_cases
from keras_norm_verify.golden_cases import GoldenCase
from keras_norm_verify.runtimes import is_tflite

# Name of an operation -> its spelling in TensorFlow Lite Micro: "Cumsum" is "CumSum" there.
SPELLED = {
    "BatchMatmul": "BatchMatMul",
    "Cumsum": "CumSum",
    "Padv2": "PadV2",
    "UnidirectionalSequenceLstm": "UnidirectionalSequenceLSTM",
}
# NumPy's name of a dtype -> C's name. Any other dtype is a C type with "_t", such as int8_t.
C_TYPES = {"float32": "float", "float64": "double", "bool": "bool"}
# Number of array values on each line of the header.
COLUMNS = 16


def write_c_header(
    file: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    golden_cases: bool = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Write a TFLite file as a C++ header for TensorFlow Lite Micro (TFLM).

    Every name in the header begins with the name of the header. A header `model.h` defines:

    - `model_data`: the file, as an array of bytes.
    - `model_in_NAME`, `model_out_NAME`: the index of each input and output in TFLM's interpreter.
    - `model_size_in_NAME`, `model_size_out_NAME`: the number of its values.
    - `model_resolver`, `model_add_operations(resolver)`: the operations that the file needs.
    - `model_golden_in_NAME`, `model_golden_out_NAME`: the inputs and outputs of one golden case,
      for a self-test of the device. A stream has `model_golden_timesteps` timesteps. Its states
      start from zeros. An output without time has its value after the last timestep.

    The header needs C++17, as TFLM does.

    Args:
        file: a TFLite file from `export_tflite`, with `signature="step"` or of static sizes.
        path: header to write, ending in ".h". Missing parent folders are created.
        golden_cases: whether to write a golden case, which `export_tflite` stored with the file.
        overwrite: whether to replace an existing header.

    Returns:
        The header written.

    Raises:
        FileExistsError: the header exists, and `overwrite` is False.
        FileNotFoundError: `file` does not exist.
        OSError: the header cannot be written.
        ValueError: `file` is not a TFLite file or is damaged; it has a dynamic dimension other than
            the batch size; it has no golden cases, or was changed after they were written; `path`
            does not end in ".h".

    Example:
        >>> samples = {"rows": x_test}
        >>> path = export_tflite(
        ...     model, "model.tflite", signature="step", quantize="int16x8", samples=samples
        ... )
        >>> write_c_header(path, "model.h").name
        'model.h'
    """
    source, target = pathlib.Path(file), pathlib.Path(path)
    if target.suffix != ".h":
        raise ValueError(f'path must end in ".h"; received {target}')
    if source.exists() and not is_tflite(source):
        raise ValueError(f"{source} is not a TFLite file")
    content = read_tflite(source)
    name = STEP if content.is_single_step else SERVING_DEFAULT
    inputs, outputs = read_signature(source, name)
    for known, tensor in inputs.items():
        if None in tensor.shape[1:]:
            raise ValueError(
                f'input "{known}" of {source} has the shape {tensor.shape}, and TensorFlow Lite '
                'Micro has static sizes only. Export one timestep, signature="step", or build the '
                "model with a static number of timesteps"
            )
    prefix = unique([target.stem])[0]
    lines = [
        f"// {source.name} for TensorFlow Lite Micro, written by keras_norm.export.write_c_header.",
        "#pragma once",
        "#include <math.h>",
        "#include <stdint.h>",
        '#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"',
        "",
        *_array("uint8_t", f"{prefix}_data", map(str, read_without_golden_cases(source))),
        *_constants(prefix, "in", inputs),
        *_constants(prefix, "out", outputs),
        *resolver_lines(prefix, content.ops),
    ]
    if golden_cases:
        lines += _golden_case(prefix, _find_golden_case(source, name))
    with staged(target, overwrite) as temporary:
        temporary.write_text("\n".join(lines) + "\n", "utf-8")
    return target


def _find_golden_case(file: pathlib.Path, signature: str) -> GoldenCase:
    """Return the golden case (stored test inputs and outputs) with the smallest batch size.

    Among golden cases with the same batch size, the one with the most timesteps is returned.
    """
    found = read_golden_cases(file)
    if found.hashes != hash_files(file):
        raise ValueError(
            f"{file} was changed after its golden cases were written, so its outputs may differ "
            "from the golden cases. Export the model again, or pass golden_cases=False"
        )

    def batch_and_length(case: GoldenCase) -> tuple[int, int]:
        batch = len(next(iter(case.inputs.values())))
        return batch, -max((case.inputs[name].shape[1] for name in case.sequences), default=0)

    cases = [case for case in found.cases if case.signature == signature]
    if not cases:
        raise ValueError(
            f"{file} stores no test inputs and outputs (golden case) for the signature "
            f'"{signature}". Export the model again, or pass golden_cases=False'
        )
    return min(cases, key=batch_and_length)


def _golden_case(prefix: str, case: GoldenCase) -> Iterator[str]:
    """Yield the lines of C++ that define the test inputs and outputs of a golden case."""
    if case.sequences:
        timesteps = case.inputs[case.sequences[0]].shape[1]
        yield f"enum {{ {prefix}_golden_timesteps = {timesteps} }};"
    inputs = {name: array for name, array in case.inputs.items() if name not in case.states}
    for kind, arrays in (("in", inputs), ("out", case.expected)):
        for name, array in zip(unique(arrays), arrays.values(), strict=True):
            dtype = C_TYPES.get(array.dtype.name, f"{array.dtype.name}_t")
            yield from _array(dtype, f"{prefix}_golden_{kind}_{name}", map(_literal, array.ravel()))


def _constants(prefix: str, kind: str, tensors: Tensors) -> Iterator[str]:
    """Yield the lines of C++ that define the index and the size of each input or output."""
    for name, tensor in zip(unique(tensors), tensors.values(), strict=True):
        size = math.prod(n or 1 for n in tensor.shape)
        yield f"enum {{ {prefix}_{kind}_{name} = {tensor.index} }};"
        yield f"enum {{ {prefix}_size_{kind}_{name} = {size} }};"


def resolver_lines(prefix: str, ops: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a header that add operations to a resolver of TensorFlow Lite Micro."""
    names = [name.title().replace("_", "") for name in sorted(ops)]
    yield f"using {prefix}_resolver = tflite::MicroMutableOpResolver<{len(names)}>;"
    yield f"inline void {prefix}_add_operations({prefix}_resolver& resolver) {{"
    for name in names:
        yield f"  resolver.Add{SPELLED.get(name, name)}();"
    yield "}"


def _array(dtype: str, name: str, values: Iterable[str]) -> Iterator[str]:
    """Yield the lines of C++ that define a constant array."""
    texts = list(values)
    # `inline`: the program has one copy of the array, even if several files include the header.
    yield f"alignas(16) inline constexpr {dtype} {name}[{len(texts)}] = {{"
    for start in range(0, len(texts), COLUMNS):
        yield f"    {', '.join(texts[start : start + COLUMNS])},"
    yield "};"


def _literal(value: Json) -> str:
    """Return a number as a literal of C++."""
    if value.dtype.kind != "f":
        return str(value).lower()
    if math.isfinite(value):
        return f"{value:.9g}"
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
