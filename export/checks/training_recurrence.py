"""Compare the recurrence that XLA compiles for training with the exported recurrence."""

import functools
from typing import Any

import keras

from keras_norm.clone import clone_for_statistics
from keras_norm.export import signature
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.train_inference_gap import as_array, call_clone
from keras_norm.export.compare.element_differences import Arrays, largest
from keras_norm.export.compare.input_cases import Case
from keras_norm.export.compare.tolerance import Tolerance, default_share
from keras_norm.export.errors import one_line
from keras_norm.export.model.layer_replacement import portable_layers
from keras_norm.export.results.artifact_result import Property
from keras_norm.export.results.output_comparison import difference
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.rnn.gradient import of_cell
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.substitution import substituted_functions

NAME = "training form"

# The outputs of one call of a layer: first in training, then in the exported file.
Forms = tuple[Arrays, Arrays]


def training_form(model: keras.Model, plan: Plan, rtol: float, atol: float | None) -> Property:
    """Check that each recurrence that XLA compiles in training gives the outputs of inference.

    A clone of the model runs one of the plan's test inputs. Each recurrent layer runs the compiled
    training recurrence and the exported recurrence on its inputs, without dropout. Layers with
    batch statistics are left out: their outputs differ between the two modes by design.

    Args:
        model: a functional or Sequential model.
        plan: the plan of the check. The smallest test input with masked timesteps is run. Without
            masked test inputs, it is the smallest with several rows and timesteps.
        rtol: relative tolerance.
        atol: absolute tolerance; None for the default share of each output's largest value.
    """
    case = min(plan.cases, key=_preference)
    found: dict[str, list[Forms]] = {}
    try:
        clone = clone_for_statistics(model)
        loops = {}
        for path, layer in named_layers(clone):
            if isinstance(layer, NormRNN) and not batch_norms(layer):
                run = functools.partial(_run_both, layer, found.setdefault(path, []))
                loops[layer] = {"inner_loop": run}
        if loops:
            inputs = [case.inputs[name] for name in signature.input_specs(model)]
            with substituted_functions(loops):
                call_clone(clone, inputs, training=False)
    # A layer's code may raise any error in a clone; the files can still be compared.
    except Exception as error:
        return Property(NAME, "not applicable", one_line(error))
    compiled = {path: calls for path, calls in found.items() if calls}
    if not compiled:
        reason = "no recurrent layer without batch statistics that training compiles"
        return Property(NAME, "not applicable", reason)
    for path, calls in compiled.items():
        for trained, served in calls:
            share = default_share(plan.precision, plan.layers, plan.timesteps)
            allowed = {n: share * largest([y]) if atol is None else atol for n, y in served.items()}
            worst = Tolerance(rtol, allowed).failed(served, trained, case.rows)
            if worst is not None:
                detail = f"layer {path!r}: {difference(worst)}"
                return Property(NAME, "fail", f"{detail}; {worst.allowed:.2g} is allowed")
    return Property(NAME, "pass", f"{', '.join(compiled)}; {case.name}")


def _preference(case: Case) -> tuple[bool, bool, bool, int]:
    size = sum(array.size for array in case.inputs.values())
    return not case.masked, len(case.rows) == 1, case.length == 1, size


def _run_both(
    layer: NormRNN,
    calls: list[Forms],
    sequences: Any,
    initial_state: list[Any],
    mask: Any,
    training: bool = False,
) -> tuple[Any, Any, list[Any]]:
    """Run the exported loop of a layer and return its outputs.

    If training compiles the loop, the function also runs the compiled loop. It then appends the
    outputs of both loops to `calls`.
    """
    loop = functools.partial(type(layer).inner_loop, layer, sequences, initial_state, mask)
    with portable_layers(layer):
        served = loop(training=False)
    spec = of_cell.spec_of(layer.cell, sequences, mask, True, ([], []))
    if layer.compiled and not layer.unroll and spec is not None:
        calls.append((_named(loop(training=True)), _named(served)))
    return served


def _named(results: tuple[Any, Any, list[Any]]) -> Arrays:
    _, path, states = results
    named = {"sequence": path, **{f"state {k}": state for k, state in enumerate(states)}}
    return {name: as_array(tensor) for name, tensor in named.items()}
