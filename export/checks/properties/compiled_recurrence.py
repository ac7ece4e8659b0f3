"""The property "compiled recurrence": XLA compiles recurrent layers without changing outputs."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import keras

from keras_norm.export.checks.model_clone import ModelClone
from keras_norm.export.checks.properties.property import NotApplicable, Property, Tolerances
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import largest, to_float64
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.errors import one_line
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.rnn import compiled
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.substitution import substituted_functions
from keras_norm.typing import Arrays, Nest, Tensor

# The outputs of a recurrent layer: the last output, the output sequence and the final states.
Outputs = tuple[Tensor, Tensor, list[Tensor]]


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """The outputs of one call of a recurrent layer.

    Attributes:
        training: outputs of the recurrence that XLA compiles in training.
        inference: outputs of the recurrence that is exported.
    """

    training: Arrays
    inference: Arrays


@dataclasses.dataclass(frozen=True)
class LayerCalls:
    """The outputs of all recurrent layers that XLA compiles in training, for one test input.

    Attributes:
        case: the test inputs of the model.
        layers: the calls of each layer, by its path.
    """

    case: Case
    layers: Mapping[str, Sequence[LayerCall]]


class CompiledRecurrence(Property[LayerCalls]):
    """A recurrent layer computes equal outputs in inference and after XLA compiles it.

    A clone of the model runs one test input. Each recurrent layer runs the compiled training
    recurrence and the exported recurrence on its inputs, without dropout. Layers with batch
    statistics are left out: their outputs differ between the two modes by design.
    """

    name = "compiled recurrence"
    meaning = "a recurrent layer computes other outputs on the compiled path than at inference"
    advice = "Continue the training with compiled=False, and report this fault of keras_norm."

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return subject.is_keras_model

    def measure(self, subject: Subject) -> LayerCalls | NotApplicable:
        """Run the compiled and the exported recurrence of each layer on a small test input.

        If possible, the test input has masked timesteps and several rows.
        """
        assert subject.clone is not None
        case = min(subject.plan.cases, key=_rank_case)
        try:
            layers = _run_layers(subject.clone, case)
        # Catch every error, because a layer's code may raise any error in a clone of the model. The
        # check then goes on with the exported files.
        except Exception as error:
            return NotApplicable(one_line(error))
        if not layers:
            return NotApplicable(
                "no recurrent layer was tested: training compiles none, or only layers with batch "
                "statistics"
            )
        return LayerCalls(case, layers)

    def judge(self, measured: LayerCalls, tolerances: Tolerances) -> PropertyResult:  # noqa: D102
        rtol, case = tolerances.calls.rtol, measured.case
        for path, calls in measured.layers.items():
            for call in calls:
                atol = {
                    name: tolerances.share * largest([y])
                    if tolerances.atol is None
                    else tolerances.atol
                    for name, y in call.inference.items()
                }
                worst = Tolerance(rtol, atol).first_failure(
                    call.inference, call.training, case.rows
                )
                if worst is not None:
                    return self.failed(
                        f"layer {path!r}: {worst.description}; the tolerance is {worst.allowed:.2g}"
                    )
        return self.passed(f"equal outputs of {', '.join(measured.layers)}; {case.name}")


def _rank_case(case: Case) -> tuple[bool, bool, bool, int]:
    """Return a sort key for test inputs: test inputs with masked timesteps come first.

    Next come test inputs with several rows, with several timesteps, and with fewer values.
    """
    size = sum(array.size for array in case.inputs.values())
    return not case.masked, len(case.rows) == 1, case.length == 1, size


def _run_layers(clone: ModelClone, case: Case) -> dict[str, list[LayerCall]]:
    """Run a clone of the model; return the outputs of each recurrent layer that XLA compiles."""
    found: dict[str, list[LayerCall]] = {}
    loops: dict[keras.layers.Layer, dict[str, Callable[..., Outputs]]] = {}
    for path, layer in named_layers(clone.model):
        if isinstance(layer, NormRNN) and not batch_norms(layer):
            run = functools.partial(_run_both, layer, found.setdefault(path, []))
            loops[layer] = {"inner_loop": run}
    if loops:
        clone.restore()
        with substituted_functions(loops):
            clone(case.inputs, training=False)
    return {path: calls for path, calls in found.items() if calls}


def _run_both(
    layer: NormRNN,
    calls: list[LayerCall],
    sequences: Nest,
    initial_state: list[Tensor],
    mask: Tensor | None,
    training: bool = False,
) -> Outputs:
    """Run the exported and the compiled recurrence of a layer; return the exported outputs.

    The outputs of both recurrences are appended to `calls`. If training does not compile the
    recurrence, only the exported recurrence runs, and `calls` does not change.
    """
    loop = functools.partial(type(layer).inner_loop, layer, sequences, initial_state, mask)
    with portable_layers(layer):
        inference: Outputs = loop(training=False)
    recurrence = compiled.recurrence_of(layer.cell, True, ([], []))
    if layer.compiled and not layer.unroll and recurrence is not None:
        calls.append(LayerCall(_by_name(loop(training=True)), _by_name(inference)))
    return inference


def _by_name(outputs: Outputs) -> Arrays:
    _, sequence, states = outputs
    named = {"sequence": sequence, **{f"state {k}": state for k, state in enumerate(states)}}
    return {name: to_float64(tensor) for name, tensor in named.items()}
