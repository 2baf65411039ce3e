"""XA transactions: their names, and finishing them from a connection that did not begin them.

A name has two halves of at most 64 bytes: one for job and sink, one for the part. The list of
prepared transactions is the server's only memory of them: a name that is not in it has been
committed or rolled back. (So a server that is restored from a backup has forgotten them.)
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.sinks.mysql.server import MySqlUnavailable, ask, driver, number_of
from holdfast.sinks.two_phase import Part

_FORMAT = 0x4846
"""Tells our transactions from those of other programs."""

_PATIENCE = 10.0
_PAUSE = 0.02
_UNKNOWN, _ROLLED_BACK = 1397, 1402


@dataclass(frozen=True, slots=True)
class Xid:
    """The name of a transaction."""

    owner: str
    part: str

    @property
    def checkpoint(self) -> int | None:
        """Of which it is a part; ``None`` if the name is not one of ours."""
        number, *others = self.part.split("_")
        return int(number) if number.isdigit() and len(others) == 2 else None


def xid(part: Part) -> Xid:
    """The name for a part."""
    return Xid(owner(part.job_id, part.sink), f"{part.checkpoint}_{part.number}_{part.token}")


def owner(job_id: str, sink: str) -> str:
    """What all transactions of a sink have in common. The sink's uid may be of any length."""
    digest = hashlib.blake2b(sink.encode(), digest_size=8).hexdigest()
    return f"holdfast_{job_id}_{digest}"


def start(connection: Any, name: Xid) -> None:
    """From now on statements belong to the transaction."""
    _command(connection, "START", name)


def prepare(connection: Any, name: Xid) -> None:
    """Let the server keep it. Until the connection ends nobody else can finish it (MariaDB)."""
    _command(connection, "END", name)
    _command(connection, "PREPARE", name)


def prepared(connection: Any) -> list[Xid]:
    """All transactions of this program that the server keeps."""
    found = []
    for number, first, _, data in ask(connection, "XA RECOVER"):
        if number == _FORMAT:
            text = data if isinstance(data, str) else data.decode(errors="replace")
            found.append(Xid(text[:first], text[first:]))
    return found


def finish(connection: Any, how: Literal["COMMIT", "ROLLBACK"], name: Xid) -> bool:
    """Whether the server knew it; nothing is done to one that it does not know.

    One that the connection which prepared it still holds is waited for, a little.
    """
    deadline = time.monotonic() + _PATIENCE
    while (was_known := _finished(connection, how, name)) is None:
        if time.monotonic() > deadline:
            raise MySqlUnavailable(
                "the connection that prepared a transaction still holds it",
                hint="The server gives it free when that connection ends; it is tried again.",
                transaction=f"{name.owner},{name.part}",
            )
        time.sleep(_PAUSE)
    return was_known


def _finished(connection: Any, how: Literal["COMMIT", "ROLLBACK"], name: Xid) -> bool | None:
    """As ``finish``; ``None`` if another connection still holds it."""
    try:
        _command(connection, how, name)
    except driver().err.MySQLError as error:
        if how == "ROLLBACK" and number_of(error) == _ROLLED_BACK:
            return True
        if number_of(error) != _UNKNOWN:
            raise
        # "Unknown" is also said of one that another connection still holds.
        return None if name in prepared(connection) else False
    return True


def _command(connection: Any, verb: str, name: Xid) -> None:
    ask(connection, f"XA {verb} %s, %s, {_FORMAT}", name.owner, name.part)
