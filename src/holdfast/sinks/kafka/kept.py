"""Writers that stay in their process from one epoch to the next, which then need not be fenced.

A writer that has committed an epoch and was not fenced since is the only one that can have written
under its id: whoever else sends fences first. So there is no marker that it does not know, and the
next epoch is begun at once. One that was fenced is told so by the broker and commits nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from holdfast.protocol.sent import Owner
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.writers import Writer

_MOST = 8
"""Each has threads and connections of its own."""


@dataclass(frozen=True, slots=True)
class _Kept:
    writer: Writer
    cluster: Cluster
    owner: Owner
    checkpoint: int
    process: int
    """A writer does not survive a fork."""


_kept: dict[str, _Kept] = {}


def keep(cluster: Cluster, writer: Writer, owner: Owner, checkpoint: int) -> None:
    """For the epoch behind the checkpoint, which this writer has just committed."""
    _let_go(_kept.pop(writer.id, None))
    while len(_kept) >= _MOST:
        _let_go(_kept.pop(next(iter(_kept)), None))
    _kept[writer.id] = _Kept(writer, cluster, owner, checkpoint, os.getpid())


def take(cluster: Cluster, transactional_id: str, owner: Owner, checkpoint: int) -> Writer | None:
    """The writer that has sent the owner's epoch before, if it is here. The caller has it now."""
    found = _kept.pop(transactional_id, None)
    if found is None or found.process != os.getpid():
        return None
    if (found.cluster, found.owner) == (cluster, owner) and found.checkpoint < checkpoint:
        return found.writer
    _let_go(found)
    return None


def _let_go(found: _Kept | None) -> None:
    if found is not None and found.process == os.getpid():
        found.writer.close()
