"""What can be seen of an artefact beside its answers."""

from typing import Any

from keras_norm.export.formats.saved_model import unservable_ops

# Keras' own recurrent layers draw dropout masks at inference too, and use none: the seed moves, and
# nothing else.
SEED_VARIABLE = "seed_generator_state"


def changed_weights(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The variables, but for seeds, whose digest is another; see `WorkerRunner.state`."""
    changed = (n for n, d in before.items() if now.get(n) != d and SEED_VARIABLE not in n)
    return tuple(name.split(": ")[1] for name in changed)


def ops(runner: Any) -> tuple[int | None, tuple[str, ...]]:
    """How many kinds of op a file holds, and those that its format's plain runtimes lack.

    A SavedModel may hold no XLA op, no `jit_compile`d function and no custom op; a TFLite file no
    Flex op and no custom op; an ONNX file no op of another domain than ONNX's own.

    Args:
        runner: a runner with `path` and `ops()`, or any function.

    Returns:
        None for what is no file, and 0 where the runner does not see the file's own.
    """
    path = getattr(runner, "path", None)
    if path is None:
        return None, ()
    used = runner.ops()
    if not used:
        return 0, ()
    if path.is_dir():
        foreign = set(unservable_ops(path))
    elif path.suffix == ".onnx":
        foreign = {op for op in used if "." in op}  # "domain.Op"
    else:
        # TFLite's builtins are written in capitals; Flex and custom ops by their own names.
        foreign = {op for op in used if not op.isupper()}
    return len(used), tuple(sorted(foreign))
