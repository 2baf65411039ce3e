"""The log that the file source keeps of files it has seen: ``sources/<source>/<n>[.compact]``.

Entries are numbered by *log offset*, not by batch. Every few entries one is compact: it repeats
all that came before. So entry L needs the newest compact entry at or below L and all after it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.errors import DamagedFile
from holdfast.querylog.textfile import parse_object, split_version, to_json

_COMPACT = ".compact"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One input file, and the log offset at which it was seen."""

    path: str
    timestamp: int
    log_offset: int


def decode_seen(data: bytes, path: str) -> tuple[SeenFile, ...]:
    """One entry of the log."""
    _, lines = split_version(data, path, (1,))
    if not lines:
        raise DamagedFile("file is truncated: it names no input file", path=path)
    seen = []
    for line in lines:
        item = parse_object(line, path)
        try:
            seen.append(SeenFile(item["path"], int(item["timestamp"]), int(item["batchId"])))
        except (KeyError, TypeError, ValueError) as cause:
            raise DamagedFile("entry does not describe an input file", path=path) from cause
    return tuple(seen)


def encode_seen(seen: Iterable[SeenFile]) -> bytes:
    """The inverse of ``decode_seen``."""
    lines = [
        to_json({"path": f.path, "timestamp": f.timestamp, "batchId": f.log_offset}) for f in seen
    ]
    return "\n".join(["v1", *lines]).encode()


def log_offset(offset: str | None) -> int | None:
    """The log offset, if this is an offset of a file source."""
    try:
        value = json.loads(offset) if offset else None
    except ValueError:
        return None
    if isinstance(value, dict) and set(value) == {"logOffset"}:
        return int(value["logOffset"])
    return None


@dataclass(frozen=True, slots=True)
class Chain:
    """The entries needed for one log offset, oldest first, and the one that breaks the chain."""

    names: tuple[str, ...]
    missing: str | None = None


def chain(names: Collection[str], upto: int) -> Chain:
    """Which of the file ``names`` of a source's directory log offset ``upto`` needs."""
    needed: list[str] = []
    for n in range(upto, -1, -1):
        if f"{n}{_COMPACT}" in names:
            return Chain((f"{n}{_COMPACT}", *reversed(needed)))
        if str(n) not in names:
            return Chain(tuple(reversed(needed)), missing=str(n))
        needed.append(str(n))
    return Chain(tuple(reversed(needed)))


def entries_after(names: Iterable[str], offset: int) -> tuple[str, ...]:
    """The entries of the log that come later."""
    numbered = {n: n.removesuffix(_COMPACT) for n in names}
    return tuple(
        sorted((n for n, k in numbered.items() if k.isdigit() and int(k) > offset), key=len)
    )
