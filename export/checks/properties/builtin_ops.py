"""Define the property "ops": a file has only built-in operations, and no unsafe operation."""

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm_verify.unsafe_ops import describe_unsafe_ops


class BuiltInOps(Property):
    """Test whether a file has only safe operations that every runtime of the file's format has.

    A runtime may lack these operations: in a SavedModel XLA ops, `jit_compile`d functions and
    custom ops; in a TFLite file Flex ops and custom ops; in an ONNX file ops of a custom domain. An
    unsafe operation may access files, the Python process or other machines. A file with an unsafe
    operation is not run.
    """

    name = "ops"
    meaning = "the file has operations that its runtime may lack, or that are unsafe"
    advice = (
        "Export with keras_norm.export. If the export fails, replace the layers that the error "
        "names."
    )
    needs_runner = False

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return not subject.is_keras_model

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:  # noqa: D102
        if subject.unsafe_ops:
            reason = describe_unsafe_ops(subject.unsafe_ops)
            return self.failed(f"the file was not run, because {reason}")
        path = subject.run.path
        if path is None:
            return self.not_applicable("a function has no file")
        used, known = subject.run.ops(), format_of(path)
        if not used:
            return self.not_applicable("this runtime cannot list the operations in a file")
        if known is not None and (foreign := known.foreign_ops(path, used)):
            names = ", ".join(sorted(foreign))
            return self.failed(f"a runtime without extensions lacks these operations: {names}")
        return self.passed(f"{len(used)} kinds of operation, all built in")
