"""Run SavedModels in Python's TensorFlow and through TensorFlow's C API."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_norm.export.errors import RunnerError, UnsafeOpError
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.runtimes.runner import Arrays, convert_inputs
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import TensorSpec


def refuse_unsafe(file: SavedModelFile) -> None:
    """Raise UnsafeOpError for a SavedModel that accesses anything outside its folder when it runs.

    Args:
        file: the SavedModel.
    """
    if ops := file.reaching:
        listed = "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in ops.items())
        raise UnsafeOpError(
            f"{file.path} reaches files, the Python process or other machines, so it is not run: "
            f"{listed}",
            ops,
        )


class SavedModelRunner(WorkerRunner):
    """A SavedModel in a TensorFlow process that can import neither Keras nor this package."""

    name = "SavedModel"
    script = "saved_model/run_saved_model.py"

    def _load(self) -> None:
        file = SavedModelFile(self.path)
        refuse_unsafe(file)
        inputs, outputs = file.ends(self.signature_name)
        for name, tensor in inputs.items():
            if tensor.shape.rank is None:
                raise RunnerError(f'{self._subject}: input "{name}" has no fixed number of axes')
        self.inputs = {n: TensorSpec(n, tuple(t.shape), t.dtype.name) for n, t in inputs.items()}
        ends = (
            {n: (t.name, t.dtype.name, t.dtype.as_datatype_enum) for n, t in end.items()}
            for end in (inputs, outputs)
        )
        request = {"path": str(self.path), "signature": self.signature_name}
        self.worker.load(request | dict(zip(("inputs", "outputs"), ends, strict=True)))

    def ops(self) -> dict[str, list[str]]:
        """Map each operation to the names of its nodes, those in functions included."""
        return SavedModelFile(self.path).ops

    def signatures(self) -> list[str]:
        """Return the names of the signatures in the file."""
        return SavedModelFile(self.path).signatures


class CApiRunner(SavedModelRunner):
    """A SavedModel through TensorFlow's C API, the loader that TensorFlow Serving uses.

    The worker never imports Python's TensorFlow.
    """

    name = "SavedModel (C API)"
    script = "saved_model/run_c_api.py"

    def run_at_once(
        self, cases: Sequence[Mapping[str, Any]], threads: int = 8, seconds: float = 1.0
    ) -> tuple[int, list[Arrays], list[Arrays]]:
        """Run the loaded model from many threads at once, as a server does.

        Args:
            cases: dicts of inputs, as for `__call__`. At most as many cases as threads.
            threads: number of threads. Each thread runs the cases in turn.
            seconds: duration of the test. Every thread runs the model at least once.

        Returns:
            (calls, lowest, highest). `calls` is the number of calls. `lowest` and `highest` have
            one dict per case: the lowest and highest value of each output element over all calls.

        Raises:
            ValueError, RunnerError: as `__call__`.
        """
        given = [convert_inputs(case, self.inputs, self.name) for case in cases]
        calls, spans = self.worker.request("threads", given, threads=threads, seconds=seconds)
        return calls, spans[: len(cases)], spans[len(cases) :]
