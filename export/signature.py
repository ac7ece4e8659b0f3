"""Name the inputs and outputs of a Keras model, with equal names in every exported format."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import keras
import tensorflow as tf

from keras_norm.export.input_names import TensorSpec as TensorSpec
from keras_norm.export.input_names import file_name, valid_name
from keras_norm.typing import Nest, Tensor, TensorLike, Tensors
from keras_norm_verify.printable import printable

# Names of an exported model's signatures: for whole sequences, and for a single timestep.
SERVING_DEFAULT = "serving_default"
STEP = "step"


def describe(specs: Mapping[str, TensorSpec]) -> str:
    """Describe inputs in one line: "rows (None, None, 8) float32"."""
    return ", ".join(f"{printable(s.name)} {s.shape} {s.dtype}" for s in specs.values())


class GraphFunction(Protocol):
    """A `tf.function` that takes tensors by input name, and returns tensors by output name."""

    def __call__(self, inputs: Mapping[str, TensorLike], /) -> dict[str, Tensor]:
        """Run the graph on tensors by input name, and return tensors by output name."""

    def get_concrete_function(self) -> Tensor:
        """Trace the function, and return the traced graph."""


def input_specs(model: keras.Model) -> dict[str, TensorSpec]:
    """Return the `TensorSpec` of every input by name, in the order of `model.inputs`.

    The names come from `keras.Input`. An underscore replaces every character that a signature
    cannot have. A number is added to a name that another input already has.

    Args:
        model: a functional or a built sequential model.

    Raises:
        ValueError: the model has no symbolic inputs (it is subclassed or not built), or is not a
            Keras model.

    Example:
        >>> model = keras.Sequential([keras.Input((None, 3), name="x"), keras.layers.Dense(2)])
        >>> input_specs(model)["x"].shape
        (None, None, 3)
    """
    tensors = _tensors(model, "inputs")
    names = unique(file_name(tensor.name) for tensor in tensors)
    return {
        name: TensorSpec(name, tuple(tensor.shape), str(tensor.dtype))
        for name, tensor in zip(names, tensors, strict=True)
    }


def text_inputs(model: keras.Model) -> list[str]:
    """Return the names of the inputs that take text; see `input_specs`."""
    return [name for name, spec in input_specs(model).items() if spec.dtype == "string"]


def output_names(model: keras.Model) -> list[str]:
    """Name every output: by its key if the model returns a dict, else by its layer's name.

    The names are unique, and have letters, digits and underscores. Raises ValueError as
    `input_specs`.
    """
    outputs = _tensors(model, "outputs")
    if isinstance(model, keras.Sequential):
        return unique([model.layers[-1].name] * len(outputs))
    if isinstance(model.output, Mapping):
        paths = [path for path, _ in keras.tree.flatten_with_path(model.output)]
        return unique("_".join(map(str, path)) for path in paths)
    return unique(model.output_names)


def call(
    model: keras.Model, inputs: Mapping[str, Tensor], training: bool = False
) -> dict[str, Tensor]:
    """Call the model with named inputs; return named outputs in the order of `output_names`.

    Raises:
        ValueError: as for `input_specs`; or an input is missing or unknown; or an output is None.
    """
    outputs = keras.tree.flatten(model(pack_inputs(model, inputs), training=training))
    named = dict(zip(output_names(model), outputs, strict=True))
    if nothing := [name for name, output in named.items() if output is None]:
        raise ValueError(
            f'the model "{model.name}" returns None for the output {", ".join(nothing)}. Return a '
            "tensor from the call of its last layer"
        )
    return named


def named_function(
    function: Callable[[dict[str, Tensor]], Mapping[str, Tensor]], specs: Mapping[str, TensorSpec]
) -> GraphFunction:
    """Compile a function to a TensorFlow graph, with a separate named tensor for each output.

    An output of the function may be an unchanged input, and two outputs may be a single tensor.
    Sizes of None in the specs stay dynamic.
    """

    def named(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tf.identity(t, name=name) for name, t in function(inputs).items()}

    tensors = {name: tf.TensorSpec(s.shape, s.dtype, name=name) for name, s in specs.items()}
    graph_function: GraphFunction = tf.function(named, input_signature=[tensors], autograph=False)
    return graph_function


def pack_inputs(model: keras.Model, inputs: Mapping[str, TensorLike]) -> Nest:
    """Arrange named inputs in the structure of `model.input`: one tensor, a list or a dict.

    Raises:
        ValueError: as for `input_specs`; or an input is missing or unknown.
    """
    names = list(input_specs(model))
    require_names(inputs, names, f'model "{model.name}"')
    structure = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    return keras.tree.pack_sequence_as(structure, [inputs[name] for name in names])


def require_names(inputs: Mapping[str, TensorLike], names: Sequence[str], who: str) -> None:
    """Raise ValueError if `inputs` is not a dict with exactly the given names.

    `who` is the name of the model or the step, for the message.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"{who} takes a dict of arrays by name, {', '.join(map(printable, names))}; "
            f"received {type(inputs).__name__}"
        )
    if set(inputs) != set(names):
        wanted, received = (", ".join(map(printable, sorted(n))) for n in (names, inputs))
        raise ValueError(f"{who} takes the inputs {wanted}; received {received or 'nothing'}")


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Make unique names that are valid for TensorFlow's graph nodes and for Python arguments.

    The new names begin with a letter, and are not in `taken`. They are unique even if upper and
    lower case are not distinguished.
    """
    found: list[str] = []
    taken = {"self", *(name.lower() for name in taken)}
    for name in names:
        base = valid_name(name)
        candidate, number = base, 1
        while candidate.lower() in taken:
            candidate, number = f"{base}_{number}", number + 1
        found.append(candidate)
        taken.add(candidate.lower())
    return found


def _tensors(model: keras.Model, which: str) -> Tensors:
    tensors = getattr(model, which, None) if isinstance(model, keras.Model) else None
    if not tensors:
        advice = "Give a Keras model"
        if isinstance(model, keras.Model):
            advice = (
                "Wrap the model: inputs = keras.Input(...); "
                "model = keras.Model(inputs, model(inputs))"
            )
        if isinstance(model, keras.Sequential):
            advice = "Build the model: let it begin with keras.Input(shape)"
        elif isinstance(model, str | os.PathLike):
            advice = "Load the model: import keras_norm; model = keras.saving.load_model(path)"
        raise ValueError(
            "an export needs a functional model or a built Sequential model, which has symbolic "
            f"inputs and outputs; received {type(model).__name__}. {advice}"
        )
    return list(tensors)
