"""The single-step model in Keras, in a SavedModel and in a TFLite file."""

import contextlib
import dataclasses

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import (
    Step,
    StreamingError,
    check,
    export_saved_model,
    export_tflite,
    open_runner,
)
from keras_norm.export.checks.properties.streaming import Streaming
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner
from keras_norm.export.formats.saved_model.write_saved_model import write_saved_model
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models
from tests.rnn import kinds

BATCH, TIME = 3, 6


def randomized(model):
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    return model


def stacked_data():
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 7, (BATCH, TIME)).astype("int32")
    ids[0, 4:] = ids[1, :2] = ids[2, 2] = 0
    features = rng.normal(size=(BATCH, TIME, 2)) * (ids > 0)[..., None]
    return {"ids": ids, "features": features.astype("float32")}


@pytest.fixture(scope="module")
def expected(streamed):
    """The expected outputs at every timestep."""
    return expected_of(streamed, stacked_data())


class Delayed(keras.layers.SimpleRNNCell):
    """A cell with more states than the cell of Keras that it extends."""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.state_size = [units, units]

    def call(self, sequence, states, training=False):
        output, _ = super().call(sequence, states[1:], training)
        return output, [output, states[0]]

    def get_initial_state(self, batch_size=None):
        return [keras.ops.zeros((batch_size, self.units)) for _ in range(2)]


def draw():
    return np.random.default_rng(0).normal(size=(BATCH, TIME, 3)).astype("float32")


def one_layer(layer):
    return randomized(models.of(layer))


def check_quickly(model, files, data):
    """Check one batch size and one length, because each further shape takes a trace."""
    return check(model, files, data, batch_sizes=[BATCH], lengths=[TIME])


def run_by_steps(step, run, data):
    """Outputs of every timestep, by name, (batch, time, ...)."""
    states = step.initial_states(BATCH)
    answers = []
    for t in range(TIME):
        found = run({name: array[:, t] for name, array in data.items()} | states)
        states = {name: found[name] for name in step.states}
        answers.append(found)
    return {n: np.stack([a[n] for a in answers], axis=1) for n in answers[0] if n not in states}


def expected_of(model, data):
    """The model's outputs for the first 1, 2, ... timesteps."""
    run = KerasRunner(model)
    whole = run(data)
    prefixes = [run({n: a[:, :t] for n, a in data.items()}) for t in range(1, TIME + 1)]
    step = Step(model)
    return {
        name: whole[name]
        if name in step.sequence_outputs
        else np.stack([prefix[name] for prefix in prefixes], axis=1)
        for name in whole
    }


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.NormLSTM(4, norm=keras_norm.RMSNormalization(), zero_output_for_mask=True),
        keras.layers.LSTM(4, return_sequences=True),
        keras.layers.GRU(4, reset_after=False),
        keras.layers.RNN(keras_norm.BatchNormLSTMCell(4, max_timesteps=3), return_sequences=True),
        keras.layers.RNN([keras.layers.LSTMCell(4), keras_norm.LayerNormGRUCell(2)]),
        keras.layers.RNN(Delayed(4), return_sequences=True, name="delayed"),
    ],
    ids=lambda layer: layer.name,
)
def test_every_kind_of_recurrent_layer_runs_timestep_by_timestep(layer):
    model = one_layer(layer)
    data = {"x": draw()}
    step = Step(model)
    models.assert_same(run_by_steps(step, step.joined, data), expected_of(model, data))


def test_states_are_named_after_their_layer(streamed):
    layer = keras_norm.BatchNormLSTM(4, max_timesteps=3, name="lstm")
    assert {n: (s.shape, s.dtype) for n, s in Step(one_layer(layer)).states.items()} == {
        "lstm_h": ((None, 4), "float32"),
        "lstm_c": ((None, 4), "float32"),
        "lstm_steps": ((None, 2), "float32"),
    }
    states = ["lower_h", "upper_h", "upper_steps", "own_state_0", "keras_h"]
    assert sorted(Step(streamed).states) == sorted(states)
    cells = [keras.layers.LSTMCell(4), keras.layers.GRUCell(2)]
    step = Step(one_layer(keras.layers.RNN(cells, name="two")))
    assert list(step.states) == ["two_state_0", "two_state_1", "two_state_2"]


@pytest.mark.parametrize(
    ("inputs", "states", "message"),
    [
        (2, None, "the step takes a dict of arrays by name, rnn_h; received NoneType"),
        (None, 2, "the step takes a dict of arrays by name, x; received NoneType"),
        (2, 3, "one timestep must have the same batch size; received batch sizes 2, 3"),
    ],
)
def test_wrong_inputs_and_states_of_a_step_raise(inputs, states, message):
    step = Step(one_layer(keras_norm.LayerNormGRU(4, name="rnn")))
    x = inputs and {"x": np.zeros((inputs, 3), "float32")}
    with pytest.raises(ValueError, match=message):
        step(x, states and step.initial_states(states))


@pytest.mark.parametrize("batch", [-1, None, "a", 1.5])
def test_initial_states_need_a_number_of_sequences(batch):
    step = Step(one_layer(keras_norm.LayerNormGRU(4)))
    with pytest.raises(ValueError, match="batch must be an integer of at least 0; received"):
        step.initial_states(batch)


RUNNERS = {
    "Keras": lambda files: contextlib.nullcontext(files["step"].joined),
    "loader of TensorFlow Serving": lambda files: CApiRunner(files["saved_model"], "step"),
    "TFLite": lambda files: open_runner(files["tflite"], signature_name="step"),
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_masked_model_with_two_inputs_runs_timestep_by_timestep_in_every_runtime(
    runner, streamed, streamed_files, expected
):
    step = Step(streamed)
    with RUNNERS[runner](streamed_files | {"step": step}) as run:
        found = run_by_steps(step, run, stacked_data())
    models.assert_same(found, expected)


def test_check_finds_a_step_that_loses_its_states(tmp_path):
    class Forgetful(Step):
        def __call__(self, inputs, states):
            outputs, after = super().__call__(inputs, states)
            return outputs, {name: 0.9 * state for name, state in after.items()}

    # Without a norm, which would undo the factor.
    model = one_layer(keras.layers.SimpleRNN(4))
    write_saved_model(model, tmp_path / "model", Forgetful(model))
    data = draw()
    report = check_quickly(model, [tmp_path / "model"], data)
    found = [(a.name, p.name) for a in report.artifacts for p in a.properties if p.status == "fail"]
    assert found == [("model", "streaming"), ("model (C API)", "streaming")]


def static(layer, time=TIME):
    """A model of static length with a nested model, a mask, an output sequence and a last output.

    The output `last` has as many columns as the model has timesteps.
    """
    inputs = keras.Input((time, 3), name="x")
    tags = keras_norm.LayerNormSimpleRNN(time, return_sequences=True, name="hidden")
    masked = [keras.Input((time, 3)), keras.layers.Masking(), tags]
    tags = keras.Sequential(masked, name="tags")(inputs)
    return randomized(keras.Model(inputs, [tags, layer(tags)]))


def test_a_model_of_static_length_runs_timestep_by_timestep(tmp_path):
    model = static(keras.layers.GRU(TIME, name="last"))
    step = Step(model)
    assert (step.sequences, step.sequence_outputs) == (["x"], ["tags"])
    x = draw()
    x[0, 4:] = 0.0
    found = run_by_steps(step, step.joined, {"x": x})
    whole = KerasRunner(model)({"x": x})
    models.assert_same({"tags": found["tags"], "last": found["last"][:, -1]}, whole)
    with pytest.raises(ValueError, match=r"shape=\(None, 6, 3\)"):
        model(x[:, :1])  # the model itself still refuses other lengths
    with open_runner(
        export_saved_model(model, tmp_path / "served", step=True), signature_name="step"
    ) as run:
        models.assert_same(step.over_time(run, {"x": x}), whole)


def masked_cells(cells, **options):
    inputs = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(5, 3, mask_zero=True)(inputs)
    return keras.Model(inputs, keras.layers.RNN(cells, return_sequences=True, **options)(x))


def test_check_notes_files_without_a_step_of_these_names(recurrent, recurrent_tflite):
    """Keras gives another number to a layer without a name."""
    x = keras.Input((None, 3), name="x")
    hidden = keras_norm.LayerNormSimpleRNN(4, return_sequences=True, name="other")(x)
    outputs = {"hidden": hidden, "y": keras.layers.Dense(2, name="y")(hidden)}
    renamed = keras.Model(x, outputs)
    renamed.set_weights(recurrent.get_weights())
    report = check_quickly(renamed, recurrent_tflite, draw())
    assert any(
        "recurrent.tflite: streaming was not compared: the step signature" in n
        for n in report.notes
    )
    (file, *_) = report.artifacts
    others = [p for p in file.properties if p.name != "streaming"]
    without = dataclasses.replace(file, name="m.tflite", path="m.tflite", properties=tuple(others))
    note = "m.tflite: streaming was not compared, because there is no step signature"
    assert Streaming().make_notes(recurrent, [without]) == (note,)


def test_a_masked_timestep_repeats_the_output_of_the_last_stacked_cell():
    model = masked_cells([keras.layers.LSTMCell(4), keras.layers.GRUCell(4)])
    step, data = Step(model), {"ids": stacked_data()["ids"] % 5}
    models.assert_same(run_by_steps(step, step.joined, data), expected_of(model, data))


def test_a_masked_layer_whose_output_is_no_state_has_no_step():
    class Doubled(keras.layers.SimpleRNNCell):
        def call(self, *args, **kwargs):
            output, states = super().call(*args, **kwargs)
            return 2 * output, states

    step = Step(masked_cells(Doubled(4)))
    with pytest.raises(StreamingError, match="zero_output_for_mask"):
        step({"ids": np.ones([1], "int32")}, step.initial_states(1))


def test_a_tflite_file_stores_the_weights_once(tmp_path):
    model = one_layer(keras_norm.LayerNormSimpleRNN(256))
    path = export_tflite(model, tmp_path / "m.tflite", step=True)
    assert 1.0 < path.stat().st_size / (4 * model.count_params()) < 1.5


@pytest.mark.slow
def test_a_step_runs_in_mixed_precision(tmp_path):
    """NumPy has no bfloat16, so its states are the harder ones."""
    inputs = keras.Input((None, 3), name="x")
    layer = keras_norm.LayerNormSimpleRNN(8, dtype="mixed_bfloat16")
    model = keras.Model(inputs, layer(inputs))
    path = export_saved_model(model, tmp_path / "model", step=True)
    report = check_quickly(model, [path], draw())
    assert report, report.failures


def test_check_streams_two_inputs_of_different_lengths(tmp_path):
    a, b = keras.Input((None, 2), name="a"), keras.Input((None, 2), name="b")
    last = [keras.layers.SimpleRNN(3)(x) for x in (a, b)]
    model = keras.Model([a, b], keras.layers.Concatenate()(last))
    path = export_tflite(model, tmp_path / "m.tflite", step=True)
    rng = np.random.default_rng(0)
    data = {n: rng.normal(size=(3, t, 2)).astype("float32") for n, t in (("a", 5), ("b", 9))}
    report = check(model, path, data, batch_sizes=[3], lengths=[9])
    assert report
    assert report.artifacts[0].property("streaming").status == "pass"


@pytest.mark.parametrize(
    ("count_leading_padding", "expected"), [(False, [0, 0, 1, 2, 3]), (True, [1, 2, 3, 4, 5])]
)
def test_a_counter_begins_at_the_first_unmasked_timestep(count_leading_padding, expected):
    inputs = keras.Input((None, 2), name="x")
    h = keras.layers.Masking()(inputs)
    options = {"count_leading_padding": count_leading_padding, "name": "rnn"}
    step = Step(
        keras.Model(inputs, keras_norm.BatchNormSimpleRNN(3, max_timesteps=4, **options)(h))
    )
    x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype("float32")
    x[:, [0, 1, 3]] = 0.0
    states, counted = step.initial_states(1), []
    for t in range(5):
        _, states = step({"x": x[:, t]}, states)
        counted.append(int(states["rnn_steps"][0, 1]))
    assert counted == expected


def test_streams_at_different_timesteps_may_share_a_batch(streamed):
    """A server may join streams: each row uses the statistics of its own timestep."""
    step, data = Step(streamed), stacked_data()

    def rows(inputs, t):
        return {name: array[:1, t] for name, array in inputs.items()}

    def join(early, late):
        return {name: np.concatenate([early[name], late[name]]) for name in early}

    early = step.initial_states(1)
    for t in range(2):
        late = step.joined(rows(data, t) | early)
        early = {name: np.asarray(late[name]) for name in step.states}
    fresh = step.initial_states(1)
    together = step.joined(join(rows(data, 2) | early, rows(data, 0) | fresh))
    alone = join(step.joined(rows(data, 2) | early), step.joined(rows(data, 0) | fresh))
    models.assert_same(together, alone)
