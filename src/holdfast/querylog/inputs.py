"""Input files that would be read again: Spark leaves out silently what is no longer there."""

from __future__ import annotations

from urllib.parse import unquote

from holdfast.errors import FileMissing
from holdfast.querylog.log import QueryLog
from holdfast.querylog.sourcelog import decode_seen, entries_after, log_offset
from holdfast.storage import open_storage


def vanished_inputs(log: QueryLog, batch: int) -> list[str]:
    """Files that a file source saw after ``batch`` and that have gone since.

    A restart from ``batch`` reads them again. Files seen up to the batch are in the state already
    and may be gone.
    """
    if batch not in log.batches("offsets"):
        return []
    gone: list[str] = []
    for name, offset in log.offsets(batch).sources.items():
        reached = log_offset(offset)
        folder = f"sources/{name}"
        if name not in log.file_sources:
            continue
        for entry in entries_after(log.names(folder), -1 if reached is None else reached):
            path = f"{folder}/{entry}"
            for seen in decode_seen(log.read(path), log.storage.locate(path)):
                if seen.log_offset > (-1 if reached is None else reached):
                    location = _location(seen.path)
                    if location not in gone and not _exists(location):
                        gone.append(location)
    return gone


def _location(uri: str) -> str:
    # Spark records locations percent-encoded.
    plain = unquote(uri)
    return "/" + plain.removeprefix("file:").lstrip("/") if plain.startswith("file:") else plain


def _exists(location: str) -> bool:
    folder, _, name = location.rpartition("/")
    try:
        open_storage(folder or "/").open(name).close()
    except FileMissing:
        return False
    return True
