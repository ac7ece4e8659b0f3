"""SavedModels through TensorFlow's C API."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_norm.export.runners.runner import Arrays
from keras_norm.export.runners.saved_model_runner import SavedModelRunner


class CApiRunner(SavedModelRunner):
    """A SavedModel through TensorFlow's C API, the loader that TensorFlow Serving uses.

    The worker never imports Python's TensorFlow.
    """

    name = "SavedModel (C API)"
    script = "run_c_api.py"

    def run_at_once(
        self, cases: Sequence[Mapping[str, Any]], threads: int = 8, seconds: float = 1.0
    ) -> tuple[int, list[Arrays], list[Arrays]]:
        """Run many calls at once on the one loaded model, as a server does.

        Args:
            cases: inputs of a call, as `__call__` takes them; no more of them than threads.
            threads: how many call at once, each with the cases in turn.
            seconds: for how long; every thread calls at least once.

        Returns:
            How many calls there were; and for every case the lowest and the highest value that
            each element of its outputs had in any call.

        Raises:
            ValueError, RunnerError: as `__call__`.
        """
        calls, spans = self.worker.run_at_once([*map(self._read, cases)], threads, seconds)
        return calls, spans[: len(cases)], spans[len(cases) :]
