"""Load weights of Flax modules."""

from collections.abc import Mapping

import keras

from keras_norm.compat.equations import (
    LAYER_NORM,
    describe,
    directions,
    recurrent_cell,
    require_built,
    require_known_class,
    require_last_axes,
    require_options,
)
from keras_norm.compat.flax_cells import CELLS, Entries, cell_assignments
from keras_norm.compat.named_weights import (
    Assignment,
    Weights,
    assign_weights,
    named_entries,
    unique_entries,
)

COLLECTIONS = ("params/", "batch_stats/")
RANDOM_STATES = ("rngs/key", "rngs/count")  # names in Flax' state that no variable of Keras gets

# Norm of Keras -> (its Flax module, the default epsilon of the Flax module).
NORMS = {
    keras.layers.LayerNormalization: ("LayerNorm", 1e-6),
    keras.layers.RMSNormalization: ("RMSNorm", 1e-6),
    keras.layers.BatchNormalization: ("BatchNorm", 1e-5),
}
# Options with which a norm of Keras or keras_norm computes the equation of the Flax module.
OPTIONS = {**LAYER_NORM, "debias": False, "renorm": False}
# Flax' name of each variable, by the variable's name in Keras.
NAMES = {
    "kernel": "kernel",
    "bias": "bias",
    "embeddings": "embedding",
    "gamma": "scale",
    "scale": "scale",
    "beta": "bias",
    "moving_mean": "mean",
    "moving_variance": "var",
}


def load_flax_weights(
    layers: keras.layers.Layer | Mapping[str, keras.layers.Layer],
    weights: Weights,
    prefix: str = "",
    *,
    epsilon: float | None = None,
) -> None:
    """Load the weights of Flax modules, of `flax.linen` or `flax.nnx`, into Keras layers.

    The layers compute the outputs of the modules:

    ================================= ============================================
    Flax                              Keras
    ================================= ============================================
    LSTMCell, OptimizedLSTMCell       LSTM, NormLSTM with norm=None, or a cell
    GRUCell                           GRU, NormGRU with norm=None, or a cell
    SimpleCell with residual=False    SimpleRNN, NormSimpleRNN with norm=None, or a cell
    Bidirectional                     Bidirectional
    LayerNorm, RMSNorm, BatchNorm     LayerNormalization, RMSNormalization, BatchNormalization
    Dense, Linear, Embed              Dense, Embedding
    ================================= ============================================

    Args:
        layers: built layers by the names of their modules, such as {"encoder/lstm": layer}; or one
            layer, if `weights` belong to one module.
        weights: variables of a linen module ({"params": ..., "batch_stats": ...}, or only the
            params), `nnx.state(module)`, or a .safetensors or .npz file of names such as
            "encoder/lstm/hi/kernel" or "encoder.lstm.hi.kernel".
        prefix: name of a module. Entries of other modules are ignored, and the names in `layers`
            are relative to it. Without a prefix, every entry needs a layer.
        epsilon: epsilon of the norms, which is not among the weights. None for Flax' defaults:
            1e-6, and 1e-5 for BatchNorm. If a model has other values, load its modules one by one.

    Raises:
        TypeError: a layer of a custom class, or of a class without a module in Flax.
        ValueError: a layer has other equations than the module, or is not built; an entry is
            missing, unused, of another shape, not finite or quantized, or occurs twice; a layer is
            given for two modules; a file is damaged or contains a pickle. All layers keep their
            weights.

    Example:
        >>> names = [f"{gate}/kernel" for gate in ("ii", "if", "ig", "io", "hi", "hf", "hg", "ho")]
        >>> params = {name: np.ones((3 if name[0] == "i" else 4, 4)) for name in names}
        >>> params |= {f"{gate}/bias": np.zeros(4) for gate in ("hi", "hf", "hg", "ho")}
        >>> layer = NormLSTM(4)
        >>> layer.build((None, 5, 3))
        >>> load_flax_weights(layer, params)

    Reference:
        Flax 0.12, `flax/linen/recurrent.py` and `flax/nnx/nn/recurrent.py`.
    """
    named = {"": layers} if isinstance(layers, keras.layers.Layer) else layers
    if not isinstance(named, Mapping):
        raise TypeError(
            "layers must be a layer, or a dict from names of modules to layers, such as "
            f"{{'encoder/lstm': layer}}. Received: {type(layers).__name__}."
        )
    path = prefix.replace(".", "/").removesuffix("/")
    path = f"{path}/" if path else ""
    entries = _entries(weights, path)
    assignments: list[Assignment] = []
    for name, layer in named.items():
        scope = path + f"{name}/".replace(".", "/") if name else path
        assignments += _layer_assignments(scope, layer, entries, epsilon)
    assign_weights(assignments, entries, "Flax")


def _entries(weights: Weights, path: str) -> Entries:
    """Return weights by names such as "encoder/lstm/hi/kernel", without "params/" before it."""

    def rename(name: str) -> str:
        name = name.replace(".", "/")
        for collection in COLLECTIONS:
            name = name.removeprefix(collection)
        return name

    pairs = ((rename(name), entry) for name, entry in named_entries(weights, "/").items())
    entries = unique_entries(pair for pair in pairs if not pair[0].endswith(RANDOM_STATES))
    return named_entries(entries, "/", path)


def _layer_assignments(
    scope: str, layer: keras.layers.Layer, entries: Entries, epsilon: float | None
) -> list[Assignment]:
    """List the variables of a layer, each with the Flax weights to load into it.

    Args:
        scope: the name of the module with a slash at its end, or "".
        layer: the layer.
        entries: all entries, by name.
        epsilon: epsilon of the Flax norms, or None for the defaults.
    """
    if isinstance(layer, keras.layers.Bidirectional):
        forward, backward = directions(layer)
        return [
            *_layer_assignments(f"{scope}forward_rnn/", forward, entries, epsilon),
            *_layer_assignments(f"{scope}backward_rnn/", backward, entries, epsilon),
        ]
    if isinstance(layer, keras.layers.TimeDistributed):
        return _layer_assignments(scope, layer.layer, entries, epsilon)
    if isinstance(getattr(layer, "cell", layer), tuple(CELLS)):
        return cell_assignments(scope, recurrent_cell(layer), entries)
    ours = getattr(layer, "KERAS_CLASS", None)
    norms = [each for cls, each in NORMS.items() if cls is ours or isinstance(layer, cls)]
    if not norms and not isinstance(layer, keras.layers.Dense | keras.layers.Embedding):
        raise TypeError(
            f"Flax has no module with the weights of {describe(layer)}. Pass LSTM, GRU, SimpleRNN, "
            "their cells, Bidirectional, LayerNormalization, RMSNormalization, "
            "BatchNormalization, Dense or Embedding, each by the name of its module: "
            "load_flax_weights({'encoder/lstm': layer}, variables)."
        )
    require_known_class(layer)
    require_built(layer)
    for module, default in norms:
        _require_norm(scope, layer, entries, module, default if epsilon is None else epsilon)
    return [
        Assignment.of_entry(variable, f"{scope}{NAMES[variable.name]}")
        for variable in layer.weights
        if variable.name in NAMES
    ]


def _require_norm(
    scope: str, layer: keras.layers.Layer, entries: Entries, module: str, epsilon: float
) -> None:
    """Raise a ValueError if a norm differs from the Flax module, or batch_stats are missing."""
    advice = f"Create the layer with epsilon={epsilon}"
    advice += ", or call load_flax_weights with epsilon=..., the epsilon of the Flax module"
    require_options(layer, {**OPTIONS, "epsilon": epsilon}, f"Flax' {module}", advice)
    if module != "BatchNorm":
        require_last_axes(layer, f"Flax' {module}")
    if module == "BatchNorm" and f"{scope}mean" not in entries:
        raise ValueError(
            f"The weights have no 'mean' and 'var' for {describe(layer)}. Pass both collections "
            "of the Flax model: {'params': ..., 'batch_stats': ...}."
        )
