"""Which files one version of one state store needs: decisions on file names alone.

Each function returns the names that must exist; the first of the changes may not, and then the
version cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.querylog.changelog import StateVersion


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """A base (none at the very beginning of a query) and the changes to apply to it, in order."""

    base: str | None
    changes: tuple[str, ...]


def hashmap_version(names: Collection[str], version: int) -> VersionFiles:
    """Hashmap backend: the newest snapshot, and every delta after it."""
    return _numbered(names, version, "snapshot", "delta")


def rocksdb_version(names: Collection[str], version: int) -> VersionFiles:
    """RocksDB in format 1: the newest zip, and every changelog after it."""
    return _numbered(names, version, "zip", "changelog")


def _numbered(names: Collection[str], version: int, base: str, change: str) -> VersionFiles:
    # From the version downwards, so that the cost is the length of the chain, whatever else lies
    # there. A gap ends it: what is below is of no use.
    changes: list[str] = []
    for v in range(version, 0, -1):
        if f"{v}.{base}" in names:
            return VersionFiles(f"{v}.{base}", tuple(reversed(changes)))
        changes.append(f"{v}.{change}")
        if changes[-1] not in names:
            break
    return VersionFiles(None, tuple(reversed(changes)))


def zip_name(version: StateVersion) -> str:
    """A snapshot in format 2."""
    return f"{version.version}_{version.unique_id}.zip"


def changelog_name(version: StateVersion) -> str:
    """A changelog in format 2."""
    return f"{version.version}_{version.unique_id}.changelog"


def lineage_version(
    names: Collection[str], version: StateVersion, lineage: Sequence[StateVersion]
) -> VersionFiles | None:
    """RocksDB in format 2: the newest zip in the lineage, and every changelog after it.

    ``None`` if the lineage does not reach back to a zip or to the first version: Spark could not
    load such a state either.
    """
    line = [*lineage, version]
    zips = [v for v in line if zip_name(v) in names]
    if not zips and line[0].version != 1:
        return None
    base = max(zips) if zips else None
    after = [v for v in line if base is None or v.version > base.version]
    return VersionFiles(zip_name(base) if base else None, tuple(changelog_name(v) for v in after))


def is_gapless(lineage: Sequence[StateVersion], version: StateVersion) -> bool:
    """Whether the lineage counts up by one to the version before ``version``."""
    numbers = [v.version for v in [*lineage, version]]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
