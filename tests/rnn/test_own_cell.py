"""The cell of docs/guides/own_cell.md, an sLSTM, works as the cells of the package do."""

import functools
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_norm
from keras_norm.export import Step
from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.core.operations import gate_gradient
from keras_norm.rnn.core.recurrence import CANDIDATE, GATE, StepGradients, StepResult
from tests import oracles
from tests.backend_process import run_on_backend
from tests.rnn import kinds
from tests.rnn.core.extensions import HEAD_NORMS, HEADS, SLSTM, SLSTM_FILE, SLSTMCell
from tests.rnn.kinds import BATCH, FEATURES, MASK, TIME, UNITS

RESETS = np.arange(BATCH * TIME).reshape(BATCH, TIME) % 3 == 1


def build(norm=HEAD_NORMS, layer_class=SLSTM, **options):
    """Build a float64 layer with random weights."""
    options = {"dtype": "float64", "return_sequences": True, **options}
    if issubclass(layer_class.cell_class, SLSTMCell):
        options["heads"] = HEADS
    return kinds.built(layer_class(UNITS, norm, **options))


def reference(weights, x, mask):
    """Compute the outputs at unmasked timesteps in NumPy, without c, n and m.

    ::

        h_t = head_norm(s(o_t) * sum_s(w_s tanh(z_s)) / sum_s(w_s))        s = 1, ..., t
        log w_s = i_s + sum of log sigmoid(f_r) over r = s + 1, ..., t
    """

    def norm(slot, a, heads=1):
        y = oracles.layer_norm(a.reshape(heads, -1)).ravel()
        gamma, beta = (weights.get(f"{slot}/{name}") for name in ("gamma", "beta"))
        return a if gamma is None else y * gamma + beta

    size = UNITS // HEADS
    blocks = np.tile(np.kron(np.eye(HEADS), np.ones((size, size))), 4)
    outputs = np.zeros((*mask.shape, UNITS), x.dtype if x.dtype.kind == "c" else "complex128")
    for row in range(len(x)):
        h, logs, zs = np.zeros(UNITS), [], []
        for t in np.flatnonzero(mask[row]):
            a = norm("kernel_norm", x[row, t] @ weights["kernel"])
            a = a + norm("recurrent_norm", h @ (weights["recurrent_kernel"] * blocks))
            i, f, z, o = np.split(a + weights["bias"], 4)
            logs = [log - np.log1p(np.exp(-f)) for log in logs] + [i]
            zs.append(np.tanh(z))
            w = np.exp(np.array(logs) - np.max(np.real(logs), axis=0))
            y = (w * np.array(zs)).sum(axis=0) / w.sum(axis=0)
            h = norm("head_norm", oracles.sigmoid(o) * y, HEADS)
            outputs[row, t] = h
    return outputs


@pytest.mark.parametrize("compiled", [True, False], ids=["custom gradient", "loop"])
def test_outputs_and_gradients_follow_the_oracle(compiled):
    """Some sequences begin or end with masked timesteps."""
    layer, x, unmasked = build(compiled=compiled), kinds.inputs(), MASK[..., None]
    sources = {"x": x, **kinds.values(layer.cell)}

    def loss(sources):
        y = reference(sources, sources["x"], MASK)
        return np.where(unmasked, np.sin(3.0 * y), 0.0).sum()

    expected = {
        name: oracles.gradient(lambda v, name=name: loss({**sources, name: v}), source)
        for name, source in sources.items()
    }
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = layer(inputs, mask=MASK, training=True)
        value = tf.reduce_sum(tf.where(unmasked, tf.sin(3.0 * y), 0.0))
    variables = kinds.variables(layer.cell)
    found = tape.gradient(value, {"x": inputs, **{k: v.value for k, v in variables.items()}})
    np.testing.assert_allclose(np.where(unmasked, y, 0), reference(sources, x, MASK), atol=1e-10)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-9, err_msg=name)


OPTIONS = {
    "resets": ({}, {"resets": RESETS}),
    "backwards": ({"go_backwards": True}, {}),
    "dropout": ({"dropout": 0.3, "recurrent_dropout": 0.3, "seed": 3}, {}),
    "joint": ({"norm": keras_norm.LayerNormalization(), "norm_form": "joint"}, {}),
    "batch norm": ({"norm": keras_norm.TimestepBatchNormalization(3)}, {}),
}


@pytest.mark.parametrize(("options", "call"), OPTIONS.values(), ids=OPTIONS)
def test_the_custom_gradient_equals_the_loop(options, call):
    def make(compiled):
        return build(compiled=compiled, return_state=True, **options)

    h, c, n, m = (kinds.draw(BATCH, UNITS, seed=k) for k in range(4))
    states = kinds.cast([h, c, np.abs(n) + 0.1, m])

    def run(layer):
        def call_layer(x, **given):
            return layer(x, **given, **call)

        call_layer.trainable_variables = layer.trainable_variables
        return kinds.train(call_layer, kinds.cast(kinds.inputs()), states, MASK)

    kinds.assert_compiled_equals_loop(make, run=run)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_large_exponents_do_not_overflow(policy):
    """Without norms: exp of the first timesteps' pre-activations would be infinite."""
    layer, x = build(None, dtype=policy), (300.0 * kinds.inputs()).astype("float32")
    with tf.GradientTape() as tape:
        y = layer(x, training=True)
        value = tf.reduce_sum(tf.cast(y, "float32"))
    unmasked = np.ones((BATCH, TIME), bool)
    expected = reference(kinds.values(layer.cell), x.astype("float64"), unmasked)
    np.testing.assert_allclose(y, expected, atol=1e-4 if policy == "float32" else 2e-2)
    assert all(np.all(np.isfinite(g)) for g in tape.gradient(value, layer.trainable_variables))


def test_a_cell_in_keras_rnn_computes_the_layer():
    layer = build()
    expected = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")(kinds.inputs())
    kinds.assert_close(layer(kinds.inputs()), expected)


def build_model():
    inputs = keras.Input((None, FEATURES))
    return keras.Model(inputs, build(dtype="float32", name="slstm")(inputs))


def test_the_step_names_the_states_of_the_cell():
    assert [*Step(build_model()).states] == ["slstm_h", "slstm_c", "slstm_n", "slstm_m"]


LOAD = """\
import sys, json, keras, numpy as np
sys.path.insert(0, sys.argv[1])
import slstm, norms
model = keras.models.load_model(sys.argv[1] + "/model.keras")
y = model(np.load(sys.argv[1] + "/x.npy"))
print(json.dumps(keras.ops.convert_to_numpy(y).tolist()))
"""


@pytest.mark.slow
def test_another_process_loads_a_model_with_the_cell(tmp_path):
    """The process uses JAX. It imports the files that define the cell and its norm."""
    model, x = build_model(), kinds.inputs().astype("float32")
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "slstm.py").write_text(SLSTM_FILE)
    names = "from tests.rnn.core.extensions import HEAD_NORMS\n"
    (tmp_path / "norms.py").write_text(names)
    found = run_on_backend("jax", "-c", LOAD, tmp_path)
    np.testing.assert_allclose(found, model(x), atol=1e-5)


# Another number of gates ------------------------------------------------------------------------


class TwoGateCell(NormCell, keras.layers.SimpleRNNCell):
    """A cell of two gates (van der Westhuizen and Lasenby 2018, arXiv 1804.04849).

    ::

        f, g = s(...), tanh(...)        h' = f * h + (1 - f) * g
    """

    GATES: ClassVar = ("forget", "candidate")
    SLOTS: ClassVar = {"kernel_norm": 2, "recurrent_norm": 2}

    @staticmethod
    def forward_step(x, u, states, weights, activate, norm):
        f, g = activate(x[0] + u[0], (GATE, CANDIDATE))
        return StepResult([f * states[0] + (1.0 - f) * g], [f, g], [])

    @staticmethod
    def backward_step(gates, residuals, old, new, d_states, weights, norm):
        (f, g), (dh,) = gates, d_states
        df = gate_gradient(GATE, f, dh * (old[0] - g))
        da = ops.concatenate([df, gate_gradient(CANDIDATE, g, dh * (1.0 - f))], axis=-1)
        return StepGradients([da], [da], [dh * f], {})


class TwoGateRNN(CellLayer):
    cell_class = TwoGateCell


@pytest.mark.parametrize("form", ["separate", "joint", "joint_all"])
def test_a_cell_has_the_weights_of_its_gates(form):
    def make(compiled):
        return build(norm, TwoGateRNN, norm_form=form, compiled=compiled)

    norm = keras_norm.LayerNormalization()
    x = kinds.cast(kinds.inputs())
    cell = kinds.assert_compiled_equals_loop(make, x, (), MASK).cell
    shapes = [tuple(w.shape) for w in cell.step_weights()[:3]]
    assert shapes == [(FEATURES, 2 * UNITS), (UNITS, 2 * UNITS), (2 * UNITS,)]


# Mistakes in a cell -----------------------------------------------------------------------------

FORWARD, BACKWARD = SLSTMCell.forward_step, SLSTMCell.backward_step


def with_norm(step, position, norm):
    """Return a step that receives another `norm`, a function (norm of the step) -> norm."""

    def changed(*args):
        return step(*args[:position], norm(args[position]))

    return changed


class IgnoredNorm:
    """A norm whose calls are left out of a step."""

    def __init__(self, norm):
        pass

    def __call__(self, slot, a):
        return a

    def backward(self, slot, a, dy):
        return dy


class RepeatedNorm:
    """A norm whose gradient a step computes twice."""

    def __init__(self, norm):
        self.norm = norm

    def __call__(self, slot, a):
        return self.norm(slot, a)

    def backward(self, slot, a, dy):
        return self.norm.backward(slot, a, dy) + self.norm.backward(slot, 2.0 * a, dy)


def misspelt(norm):
    return lambda slot, a: norm("haed_norm", a)


def changing(step, **parts):
    """Return a step that returns other parts of its result: functions of the result."""

    def changed(*args):
        result = step(*args)
        return result._replace(**{name: part(result) for name, part in parts.items()})

    return changed


forward, backward = (functools.partial(changing, step) for step in (FORWARD, BACKWARD))
STEP, GRADIENT = "forward_step", "backward_step"
MISTAKES = {
    "a misspelt slot": (STEP, with_norm(FORWARD, 5, misspelt), r"norm\('haed_norm', ...\)"),
    "no norm": (STEP, with_norm(FORWARD, 5, IgnoredNorm), "does not use the norm head_norm"),
    "three states": (STEP, forward(states=lambda s: s.states[:3]), "must return 4 states"),
    "three gates": (STEP, forward(gates=lambda s: s.gates[:3]), "Received: 12 columns, and 16"),
    "a tuple": (STEP, lambda *args: tuple(FORWARD(*args)), "must return StepResult"),
    "no gradient of a norm": (
        GRADIENT,
        with_norm(BACKWARD, 6, IgnoredNorm),
        r"Call norm.backward\('head_norm', a, dy\) once",
    ),
    "two gradients of a norm": (
        GRADIENT,
        with_norm(BACKWARD, 6, RepeatedNorm),
        "Received: a second call",
    ),
    "a gradient of one state": (
        GRADIENT,
        backward(states=lambda s: s.states[:1]),
        "Received: {'x': 1, 'u': 1, 'states': 1} gradients",
    ),
    "gradients without a list": (GRADIENT, backward(x=lambda s: s.x[0]), "three lists and a dict"),
    "narrow slots": ("SLOTS", {"kernel_norm": 3}, "of the widths {'kernel_norm': 12}"),
}


@pytest.mark.parametrize(("name", "value", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_cell_is_an_error(name, value, message):
    value = staticmethod(value) if callable(value) else value
    steps = {STEP: staticmethod(FORWARD), GRADIENT: staticmethod(BACKWARD)}
    cell = type("Mistake", (SLSTMCell,), {**steps, name: value})
    layer_class = type("MistakeLayer", (CellLayer,), {"cell_class": cell})
    norm = {"head_norm": HEAD_NORMS["head_norm"]} if name != "SLOTS" else None
    with pytest.raises((TypeError, ValueError), match=message):
        kinds.train(build(norm, layer_class, compiled=True), kinds.cast(kinds.inputs()))


def test_a_step_may_return_its_states_as_a_tuple():
    step = staticmethod(forward(states=lambda s: tuple(s.states)))
    cell = type("TupleCell", (SLSTMCell,), {STEP: step, GRADIENT: staticmethod(BACKWARD)})
    layer_class = type("TupleLayer", (CellLayer,), {"cell_class": cell})
    x = kinds.inputs()
    kinds.assert_close(build(layer_class=layer_class)(x, training=True), build()(x, training=True))


class WithoutAttribute(SLSTMCell):
    """A cell that does not store its argument."""

    def __init__(self, units, norm=None, *args, width=3, **kwargs):
        super().__init__(units, norm, *args, **kwargs)


class WithConfig(WithoutAttribute):
    """A cell that writes its argument itself."""

    def get_config(self):
        return {**super().get_config(), "width": 3}


def test_an_argument_without_an_attribute_cannot_be_saved():
    with pytest.raises(ValueError, match="its argument 'width' would be lost"):
        WithoutAttribute(UNITS).get_config()
    assert WithConfig(UNITS).get_config()["width"] == 3
