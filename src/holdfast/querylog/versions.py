"""Which files one version of one state store needs: decisions on file names alone.

Each function returns the names that must exist, whether or not they do; the caller looks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.querylog.changelog import StateVersion

_NUMBERED = re.compile(r"(\d+)\.(delta|snapshot|zip|changelog)\Z")


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
    found = (_NUMBERED.match(name) for name in names)
    bases = [int(m[1]) for m in found if m and m[2] == base and int(m[1]) <= version]
    newest = max(bases, default=0)
    return VersionFiles(
        f"{newest}.{base}" if newest else None,
        tuple(f"{v}.{change}" for v in range(newest + 1, version + 1)),
    )


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
