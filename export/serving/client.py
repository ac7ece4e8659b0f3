"""A model on a TensorFlow server, run as every other runner is."""

import abc
from collections.abc import Mapping
from typing import Any, Self

from keras_norm.export.errors import RunnerError
from keras_norm.export.runners import Runner, fixed_specs
from keras_norm.export.saved_model_file import graph_tensors
from keras_norm.export.signature import SERVING_DEFAULT


class Client(Runner):
    """A signature of a model on a server, from named arrays to named arrays.

    Names, shapes and types of the inputs come from the server, once, and are checked before
    anything is sent. `keras_norm.export.check` takes a client as it takes a file.

    Args:
        address: of the server.
        model_name: what the server calls the model.
        signature_name: which of its signatures to run.
        version: a number; the label that the server has for one, as text; or None for the newest
            that is ready.
        timeout: seconds that one answer may take.

    Attributes:
        address, model_name, signature_name, version, timeout: as given.
        outputs: name -> `keras_norm.export.saved_model_file.GraphTensor`.

    Raises:
        RunnerError: no server answers, or it has no such model, version or signature; or the
            signature has a type that cannot be carried.
    """

    path = None
    types: frozenset[str] | None = None  # that can be sent and received; None for all

    def __init__(
        self,
        address: str,
        model_name: str,
        signature_name: str = SERVING_DEFAULT,
        *,
        version: int | str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.address = address
        self.model_name = model_name
        self.signature_name = signature_name
        self.version = version
        self.timeout = timeout
        self._connect()
        try:
            self._read_signature()
        except BaseException:
            self.close()
            raise

    def _read_signature(self) -> None:
        self._signatures = self._metadata()
        if self.signature_name not in self._signatures:
            known = ", ".join(self.signatures())
            raise self._error(f"no signature {self.signature_name}; it has: {known or 'none'}")
        found = self._signatures[self.signature_name]
        inputs, self.outputs = graph_tensors(found.inputs), graph_tensors(found.outputs)
        self.inputs = fixed_specs(inputs, self._subject)
        for name, tensor in (inputs | self.outputs).items():
            if self.types is not None and tensor.dtype not in self.types:
                raise self._error(f'{type(self).__name__} cannot carry "{name}", {tensor.dtype}')

    @abc.abstractmethod
    def _connect(self) -> None:
        """Prepare to ask the server."""

    @abc.abstractmethod
    def _metadata(self) -> Mapping[str, Any]:
        """Ask the server for the model's signatures: name -> SignatureDef."""

    def signatures(self) -> list[str]:
        """Names of the model's signatures."""
        return sorted(name for name in self._signatures if not name.startswith("__"))

    def with_signature(self, signature_name: str) -> Self:
        """A client for another signature of the same model.

        Args:
            signature_name: of the signature.
        """
        return type(self)(
            self.address,
            self.model_name,
            signature_name,
            version=self.version,
            timeout=self.timeout,
        )

    @property
    def _subject(self) -> str:
        version = "" if self.version is None else f" {self.version}"
        return f"{self.name} {self.address}, model {self.model_name}{version}"

    def _error(self, text: str, detail: str = "") -> RunnerError:
        line, *_ = [*text.strip().splitlines(), "no reason was given"]
        return RunnerError(f"{self._subject}: {line}", detail or text)
