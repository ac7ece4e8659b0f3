"""The two files that say what a TensorFlow server serves, and how it joins requests."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]

from keras_norm.export.serving.api import require_serving_extra
from keras_norm.export.staging import replace_text


def write_models_config(
    path: str | os.PathLike[str],
    models: Mapping[str, str | os.PathLike[str]],
    *,
    versions: Mapping[str, Sequence[int]] | None = None,
    labels: Mapping[str, Mapping[str, int]] | None = None,
) -> pathlib.Path:
    """Write the models that a server serves, for its option `--model_config_file`.

    The file is replaced in one step, so that a server that polls it never reads half of it.

    Args:
        path: file to write.
        models: name -> the folder of its versions as the server sees it: an absolute path (in a
            container, "/models/digits") or a URI.
        versions: name -> the versions to serve, for models of which not just the newest is served.
        labels: name -> label -> the version that clients mean by it.

    Returns:
        `path`.

    Raises:
        ImportError: tensorflow-serving-api is not installed.
        ValueError: no models, a folder that is not absolute, versions or labels of a model that is
            not among them, or a label for a version that is not served.

    Example:
    ```python
    write_models_config(
        "models.config",
        {"digits": "/models/digits"},
        versions={"digits": [1, 2]},
        labels={"digits": {"stable": 1, "canary": 2}},
    )
    ```
    """
    require_serving_extra("write_models_config")
    from tensorflow_serving.config import model_server_config_pb2

    versions, labels = versions or {}, labels or {}
    unknown = {*versions, *labels} - set(models)
    if not models or unknown:
        known = ", ".join(models) or "none"
        raise ValueError(f"{', '.join(sorted(unknown)) or 'models'}: the models are {known}")
    config = model_server_config_pb2.ModelServerConfig()
    for name, folder in models.items():
        base_path = os.fspath(folder)
        if not base_path.startswith("/") and "://" not in base_path:
            raise ValueError(
                f"the server wants an absolute path or a URI for {name}; received {base_path}"
            )
        model = config.model_config_list.config.add()
        model.name, model.base_path, model.model_platform = name, base_path, "tensorflow"
        if name in versions:
            model.model_version_policy.specific.versions.extend(versions[name])
        for label, version in labels.get(name, {}).items():
            if name in versions and version not in versions[name]:
                raise ValueError(
                    f"{name}: the label {label} means version {version}, which is not served"
                )
            model.version_labels[label] = version
    return _written(path, text_format.MessageToString(config))


def write_batching_parameters(
    path: str | os.PathLike[str],
    *,
    max_batch_size: int,
    batch_timeout_micros: int,
    num_batch_threads: int | None = None,
    max_enqueued_batches: int | None = None,
    allowed_batch_sizes: Sequence[int] = (),
    pad_variable_length_inputs: bool = False,
) -> pathlib.Path:
    """Write how a server joins requests into batches, for its option `--batching_parameters_file`.

    Requests of different lengths cannot be joined as they are: the server refuses all of them.
    `pad_variable_length_inputs` makes them equal by repeating the very first number of each request
    at its end, which no mask recognizes: a model that looks at the end of a sequence then answers
    something else. Have the clients pad, with the value that the model masks; see docs/serving.md.

    Args:
        path: file to write, replaced in one step.
        max_batch_size: rows that are joined at most. A larger request is refused, also one of those
            that warm the model up.
        batch_timeout_micros: microseconds that a request waits for others, 0 or more.
        num_batch_threads: batches that run at once; None for the server's number of processors.
        max_enqueued_batches: batches that may wait before requests are turned away; None for the
            server's default.
        allowed_batch_sizes: sizes, ascending to `max_batch_size`, to which batches are filled up.
        pad_variable_length_inputs: see above.

    Returns:
        `path`.

    Raises:
        ValueError: a number that the server would refuse.
    """
    numbers = {
        "max_batch_size": (max_batch_size, 1),
        "batch_timeout_micros": (batch_timeout_micros, 0),
        "num_batch_threads": (num_batch_threads, 1),
        "max_enqueued_batches": (max_enqueued_batches, 1),
    }
    given = {name: (n, least) for name, (n, least) in numbers.items() if n is not None}
    for name, (number, least) in given.items():
        if number < least:
            raise ValueError(f"{name} must be at least {least}; received {number}")
    sizes = list(allowed_batch_sizes)
    if sizes and (sizes != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] != max_batch_size):
        raise ValueError(
            f"allowed_batch_sizes must ascend to max_batch_size, {max_batch_size}; received {sizes}"
        )
    # tensorflow-serving-api does not bring this one's protocol buffer; it holds numbers only.
    lines = [f"{name} {{ value: {number:d} }}" for name, (number, _) in given.items()]
    lines += [f"allowed_batch_sizes: {size:d}" for size in sizes]
    lines += ["pad_variable_length_inputs: true"] if pad_variable_length_inputs else []
    return _written(path, "".join(f"{line}\n" for line in lines))


def _written(path: Any, text: str) -> pathlib.Path:
    file = pathlib.Path(path)
    replace_text(file, text)
    return file
