"""Cut a batch into ghost batches, and put it together again."""

from typing import Any

from keras import ops


def split(x: Any, mask: Any, virtual_batch_size: int) -> tuple[Any, Any]:
    """Cut a batch of B rows into ceil(B / virtual_batch_size) ghost batches.

    The ghosts are as equal as whole rows allow; what the last one lacks is filled with masked rows.

    Args:
        x: tensor (B, ...).
        mask: bool tensor that broadcasts to `x`, or None.
        virtual_batch_size: most rows in a ghost.

    Returns:
        x as (ghosts, rows, ...), and a bool mask that broadcasts to it.
    """
    batch = ops.shape(x)[0]
    ghosts = -(-batch // virtual_batch_size)
    # An empty batch is one empty ghost.
    ghosts = max(ghosts, 1) if isinstance(ghosts, int) else ops.maximum(ghosts, 1)
    rows = -(-batch // ghosts)
    alive = ops.reshape(
        ops.arange(ghosts * rows) < batch, [ghosts, rows] + [1] * (len(x.shape) - 1)
    )
    if mask is not None:
        mask = ops.broadcast_to(mask, [batch, *ops.shape(mask)[1:]])
        alive = ops.logical_and(alive, _cut(mask, ghosts, rows))
    return _cut(x, ghosts, rows), alive


def merge(x: Any, batch: Any) -> Any:
    """Put (ghosts, rows, ...) together again and drop the rows that filled the last ghost."""
    shape = ops.shape(x)
    return ops.reshape(x, [shape[0] * shape[1], *shape[2:]])[:batch]


def _cut(x: Any, ghosts: Any, rows: Any) -> Any:
    shape = ops.shape(x)
    filling = ops.zeros([ghosts * rows - shape[0], *shape[1:]], x.dtype)
    return ops.reshape(ops.concatenate([x, filling], axis=0), [ghosts, rows, *shape[1:]])
