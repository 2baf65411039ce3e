"""What nobody needs any more: files that a job should not have left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.checkpoints.metadata import CheckpointMetadata


def files_of(completed: Iterable[CheckpointMetadata]) -> set[str]:
    """Every file of these checkpoints, below the directory of all jobs' checkpoints."""
    return {
        f"{metadata.job_id}/{place}"
        for metadata in completed
        for place in [f"chk-{metadata.id}/_metadata", *(f.place for f in metadata.files if f.place)]
    }


def of_no_checkpoint(kept: Path, completed: Iterable[CheckpointMetadata]) -> set[str]:
    """Files among the checkpoints that belong to none of them, unfinished ones too."""
    return {str(path.relative_to(kept)) for path in _walk(kept)} - files_of(completed)


def stale_work(work: Path) -> list[Path]:
    """In a job's working directory, after it has stopped: what no start would need.

    Attempts before the newest, segments that their channel's log does not name, pinned files,
    promises of checkpoints before the newest.
    """
    attempts = sorted(work.glob("*/attempt-*"), key=_number)
    newest = attempts[-1:]
    return [
        *attempts[:-1],
        *(folder for attempt in newest for folder in _unknown_segments(attempt)),
        *(path for attempt in newest for path in _walk(attempt / "pins")),
        *(path for attempt in newest for path in _old_promises(attempt)),
    ]


def segments(work: Path) -> list[Path]:
    """Those that some reader or sink still has to take; a job that has finished has none."""
    return sorted(work.glob("*/attempt-*/channels/*/log/*"))


def _unknown_segments(attempt: Path) -> list[Path]:
    logs = attempt.glob("channels/*/log/*")
    known = {(log.parents[1], json.loads(log.read_bytes())["folder"]) for log in logs}
    folders = attempt.glob("channels/*/segments/*")
    return [folder for folder in folders if (folder.parents[1], folder.name) not in known]


def _old_promises(attempt: Path) -> list[Path]:
    by_number: dict[int, list[Path]] = {}
    for path in attempt.glob("promised/*"):
        by_number.setdefault(int(path.name.partition(".")[0]), []).append(path)
    stored = [n for n, paths in by_number.items() if any(p.suffix for p in paths)]
    newest = max(stored, default=0)
    return [path for number, paths in by_number.items() if number < newest for path in paths]


def _number(attempt: Path) -> int:
    return int(attempt.name.rpartition("-")[2])


def _walk(folder: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(folder):
        yield from (Path(directory, name) for name in names)
