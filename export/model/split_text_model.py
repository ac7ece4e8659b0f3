"""Split a model that takes texts into a preprocessing model and a core model for numbers."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_norm.export.signature import input_specs, output_names, unique
from keras_norm.keras_internals import nodes_in_order
from keras_norm.typing import Tensor, Tensors

TEXT_LAYERS = (keras.layers.TextVectorization, keras.layers.StringLookup)


def split_text_model(model: keras.Model) -> tuple[keras.Model, keras.Model]:
    """Split a model into the part that turns texts into numbers, and the part that takes numbers.

    ::

        model(texts) = core(preprocessing(texts))

    TFLite and ONNX have no operations on texts, so an app runs the preprocessing in its own code,
    and the file of the core. Nested models are split too. Both parts share the layers and the
    weights of `model`.

    Args:
        model: a functional or a built sequential model. Its layers that take texts, such as
            `TextVectorization`, take nothing else and have no weights.

    Returns:
        (preprocessing, core). `preprocessing` has the inputs of texts. `core` has the outputs of
        `model`, and in place of each input of texts an input of the same name for the numbers that
        a layer computes from the texts. If several layers do, their inputs are named "text",
        "text_1" and so on. One input or output is a tensor, several are a dict by name.

    Raises:
        ValueError: the model has no input of texts; a layer takes texts together with numbers, or
            has weights, or turns numbers into texts; an output is text; or the model has no
            symbolic inputs.

    Example:
        >>> preprocessing, core = split_text_model(text_model)
        >>> ids = preprocessing(keras.ops.convert_to_tensor(["not a bad film"]))
        >>> ids.shape, core.output_shape
        (TensorShape([1, 4]), (None, 1))
    """
    return _Split(model).parts()


class _Split:
    """Build both parts of a model: call its layers again, and replace text layers by inputs."""

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        specs = input_specs(model)
        if all(spec.dtype != "string" for spec in specs.values()):
            raise ValueError(
                f'model "{model.name}" takes no texts, so there is nothing to split. Its inputs: '
                + ", ".join(f"{name} ({spec.dtype})" for name, spec in specs.items())
            )
        self.texts: dict[str, Tensor] = {}  # Inputs of the preprocessing model.
        self.numbers: dict[str, Tensor] = {}  # Inputs of the core model.
        self.computed: dict[str, Tensor] = {}  # Outputs of the preprocessing model.
        # Id of a tensor of texts -> name of the model's input that determines the tensor.
        self.names: dict[int, str] = {}
        self.inputs = []
        for name, spec in specs.items():
            tensor = keras.Input(batch_shape=spec.shape, dtype=spec.dtype, name=name)
            (self.texts if spec.dtype == "string" else self.numbers)[name] = tensor
            self.names[id(tensor)] = name
            self.inputs.append(tensor)

    def parts(self) -> tuple[keras.Model, keras.Model]:
        """Return the model that turns texts into numbers, and the model that takes numbers."""
        outputs = self._call_layers(self.model, self.inputs)
        for name, output in zip(output_names(self.model), outputs, strict=True):
            if output.dtype == "string":
                raise ValueError(
                    f'output "{name}" is text, but the core model computes numbers. Split a model '
                    "without this output: keras.Model(model.inputs, the other outputs)"
                )
        whole, name = self.model, self.model.name
        structure = whole.outputs[0] if isinstance(whole, keras.Sequential) else whole.output
        packed = keras.tree.pack_sequence_as(structure, outputs)
        texts, numbers = _pack(self.texts), _pack(self.numbers)
        return (
            keras.Model(texts, _pack(self.computed), name=f"{name}_preprocessing"),
            keras.Model(numbers, packed, name=f"{name}_core"),
        )

    def _call_layers(self, model: keras.Model, inputs: Tensors) -> Tensors:
        """Call every layer of a model on new tensors for its inputs; return the new outputs."""
        new = dict(zip(map(id, model.inputs), inputs, strict=True))
        for node in nodes_in_order(model):
            arguments = keras.tree.map_structure(
                lambda value: new.get(id(value), value),
                (node.arguments.args, dict(node.arguments.kwargs)),
            )
            received = [new[id(tensor)] for tensor in node.input_tensors]
            outputs = self._call_layer(node.operation, received, *arguments)
            new.update(zip(map(id, node.outputs), outputs, strict=True))
        return [new[id(tensor)] for tensor in model.outputs]

    def _call_layer(
        self, layer: Any, received: Sequence[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensors:
        """Call a layer. If it turns texts into numbers, return new inputs of the core instead."""
        texts = [tensor for tensor in received if tensor.dtype == "string"]
        if texts and getattr(layer, "inputs", None):
            return self._call_layers(layer, list(received[: len(layer.inputs)]))
        who = f'layer "{layer.name}" ({type(layer).__name__})'
        if 0 < len(texts) < len(received):
            raise ValueError(
                f"{who} takes texts together with numbers, so the model cannot be split at it. Let "
                "a separate layer, such as TextVectorization, turn the texts into numbers first"
            )
        if texts and getattr(layer, "weights", []):
            raise ValueError(
                f"{who} takes texts and has weights, so the model cannot be split at it. Call the "
                "layer that turns texts into numbers, such as TextVectorization, outside this layer"
            )
        # Read the layer's config: Keras' output specs do not say whether a tensor is sparse, ragged
        # or text.
        options = layer.get_config() if isinstance(layer, TEXT_LAYERS) else {}
        if options.get("sparse") or options.get("ragged"):
            raise ValueError(
                f"{who} returns a sparse or ragged tensor, but the core model takes dense tensors. "
                "Build the layer with sparse=False and ragged=False"
            )
        outputs: Tensors = keras.tree.flatten(layer(*args, **kwargs))
        if not texts:
            if options.get("invert") or any(output.dtype == "string" for output in outputs):
                raise ValueError(
                    f"{who} turns numbers into texts, but the core model computes numbers. Split a "
                    "model that ends before this layer"
                )
            return outputs
        name = self.names[id(texts[0])]
        return [self._replace_by_input(output, name) for output in outputs]

    def _replace_by_input(self, output: Tensor, name: str) -> Tensor:
        """Replace an output of a text layer by a new input of the core model.

        `name` is the name of the model's input from which the layer gets its texts. An output
        that is text is returned unchanged.
        """
        if output.dtype == "string":
            self.names[id(output)] = name
            return output
        (name,) = unique([name], taken=self.numbers)
        self.computed[name] = output
        self.numbers[name] = keras.Input(batch_shape=output.shape, dtype=output.dtype, name=name)
        return self.numbers[name]


def _pack(tensors: dict[str, Tensor]) -> Any:
    """Return the tensor of a dict with one item; return any other dict unchanged."""
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors
