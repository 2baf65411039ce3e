"""A prepared transaction that the store does not know when it is committed for the first time.

It cannot have been committed: somebody has rolled it back or committed it by hand, or the store has
forgotten it. Nothing can be done about it here, but it must not pass in silence. A second try finds
nothing when the answer to the first got lost, and a recovery when a crash came behind the commit:
both are as they should be.
"""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


class FirstTries:
    """Of one sink, which has one epoch open at a time."""

    def __init__(self) -> None:
        self._checkpoint = -1
        self._tried: set[str] = set()

    def is_first(self, checkpoint: int, transaction: str) -> bool:
        """Whether nobody has asked for this one before; from now on somebody has."""
        if checkpoint != self._checkpoint:
            self._checkpoint, self._tried = checkpoint, set()
        is_first = transaction not in self._tried
        self._tried.add(transaction)
        return is_first


def tell_unknown(checkpoint: int, transaction: str, where: str) -> None:
    """Say that rows may be lost."""
    _log.error(
        "a prepared transaction of checkpoint %s is not known to the server: its rows are lost, "
        "unless somebody has committed it by hand. Compare the table with the source; a restore "
        "from an older checkpoint writes the rows again [transaction=%s, server=%s]",
        checkpoint,
        transaction,
        where,
    )
