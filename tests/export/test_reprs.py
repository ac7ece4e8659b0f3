"""The objects of keras_norm.export that a user sees have a repr of one line."""

from keras_norm.export import Step, open_runner
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm_verify import read_golden_cases


def test_a_runner_shows_its_file_and_its_inputs(recurrent_tflite):
    with open_runner(recurrent_tflite) as runner:
        assert repr(runner) == (
            f"<TFLite runner of {str(recurrent_tflite)!r}, inputs: x (None, None, 3) float32>"
        )


def test_a_runner_of_a_model_shows_no_path(recurrent):
    assert repr(KerasRunner(recurrent)) == "<Keras runner, inputs: x (None, None, 3) float32>"


def test_a_step_shows_its_inputs_and_states(recurrent):
    step = Step(recurrent)
    (state,) = step.states
    assert repr(step) == (
        f"<Step of {recurrent.name!r}, x (None, 3) float32, {state} (None, 4) float32>"
    )


def test_golden_cases_show_their_model_and_their_number(recurrent, recurrent_tflite):
    cases = read_golden_cases(recurrent_tflite)
    assert repr(cases) == f"<GoldenCases of {recurrent.name!r}: {len(cases.cases)} cases>"
    case = cases.cases[0]
    assert repr(case) == f"<GoldenCase of signature {case.signature!r}: {case.name!r}>"
