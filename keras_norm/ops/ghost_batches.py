"""Split a batch into ghost batches, each with its own statistics, and merge them again."""

from keras import ops

from keras_norm.typing import Tensor


def split_batch(x: Tensor, mask: Tensor | None, virtual_batch_size: int) -> tuple[Tensor, Tensor]:
    """Split a batch of B rows into ceil(B / virtual_batch_size) ghost batches.

    The ghost batches are as equal as whole rows allow. Masked rows pad the last ghost batch.

    Args:
        x: tensor (B, ...).
        mask: bool tensor that broadcasts to `x`, or None.
        virtual_batch_size: largest number of rows in a ghost batch.

    Returns:
        x as (ghosts, rows, ...), and a bool mask that broadcasts to it.
    """
    batch = ops.shape(x)[0]
    ghosts = -(-batch // virtual_batch_size)
    # An empty batch becomes one empty ghost batch: with 0 ghost batches, `batch // ghosts` would
    # divide by zero.
    ghosts = max(ghosts, 1) if isinstance(ghosts, int) else ops.maximum(ghosts, 1)
    rows = -(-batch // ghosts)
    unmasked = ops.reshape(
        ops.arange(ghosts * rows) < batch, [ghosts, rows] + [1] * (len(x.shape) - 1)
    )
    if mask is not None:
        mask = ops.broadcast_to(mask, [batch, *ops.shape(mask)[1:]])
        unmasked = ops.logical_and(unmasked, _pad_and_split(mask, ghosts, rows))
    return _pad_and_split(x, ghosts, rows), unmasked


def merge_batch(x: Tensor, batch: int | Tensor) -> Tensor:
    """Join ghost batches (ghosts, rows, ...) to one batch of `batch` rows, without padding."""
    shape = ops.shape(x)
    return ops.reshape(x, [shape[0] * shape[1], *shape[2:]])[:batch]


def _pad_and_split(x: Tensor, ghosts: int | Tensor, rows: int | Tensor) -> Tensor:
    shape = ops.shape(x)
    padding = ops.zeros([ghosts * rows - shape[0], *shape[1:]], x.dtype)
    return ops.reshape(ops.concatenate([x, padding], axis=0), [ghosts, rows, *shape[1:]])
