"""Write keras_norm_verify.py from export/golden_cases: python -m tests.standalone_verifier.

A device gets a copy of this file. It needs NumPy and the runtime of the artifact.
"""

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
PATH = ROOT / "keras_norm_verify.py"

# Source files in the order of the code, and the names to copy; () copies a whole file.
SOURCES = {
    "keras_norm/typing.py": ("Array", "Arrays", "Json"),
    "export/runtimes/over_time.py": ("run_over_time",),
    "export/printable.py": (),
    "export/golden_cases/golden_cases.py": (),
    "export/golden_cases/golden_cases_parser.py": (),
    "export/golden_cases/allowed_ops.py": (),
    "export/golden_cases/data_flow.py": (),
    "export/golden_cases/unsafe_ops.py": (),
    "export/golden_cases/artifact.py": (),
    "export/golden_cases/verify.py": (),
}

HEAD = '''\
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

'''


def source() -> str:
    """Generate the text of keras_norm_verify.py."""
    imports, body = [], []
    for name, wanted in SOURCES.items():
        text = (ROOT / name).read_text()
        tree = ast.parse(text)
        imports += [ast.unparse(node) for node in tree.body if _is_external_import(node)]
        body.append(_definitions(text, tree, wanted) if wanted else _without_imports(text, tree))
    _require_unique_names(body)
    return _formatted(HEAD + "\n".join(imports) + "\n\n" + "\n\n".join(body))


def _is_external_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not (node.module or "").startswith("keras_norm")
    return isinstance(node, ast.Import)


def _without_imports(text: str, tree: ast.Module) -> str:
    """Return a file's code below its imports, with the docstring's first line as a heading."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = imports or tree.body[:1]  # the docstring
    heading = f"# {(ast.get_docstring(tree) or '').splitlines()[0]} ".ljust(100, "-")
    rest = text.splitlines()[imports[-1].end_lineno :]
    return "\n".join([heading, *rest])


def _definitions(text: str, tree: ast.Module, wanted: tuple[str, ...]) -> str:
    """Return the definitions of some names, with the comments directly above them."""
    lines, found = text.splitlines(), []
    for node in tree.body:
        if _defined_name(node) in wanted:
            start = node.lineno - 1
            while lines[start - 1].startswith("#"):
                start -= 1
            found += lines[start : node.end_lineno]
    return "\n".join(found)


def _defined_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _require_unique_names(parts: list[str]) -> None:
    names = [_defined_name(node) for part in parts for node in ast.parse(part).body]
    twice = {name for name in names if name is not None and names.count(name) > 1}
    assert not twice, f"two files of the verifier define {', '.join(sorted(twice))}: rename one"


def _formatted(text: str) -> str:
    """Sort the imports, remove unused imports, and format the code."""
    for command in (["check", "--select=F401,I", "--fix", "--quiet"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PATH), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    PATH.write_text(source())
