"""What Spark writes about each stateful operator.

Version 1 is ``state/<op>/_metadata/metadata``, written once. Version 2 is
``state/<op>/_metadata/v2/<batch>``, written at the first batch of every run; it also lists the
schema files by absolute location, which is why a query log cannot simply be moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DamagedFile
from holdfast.querylog.textfile import object_line, split_version, to_json

DEFAULT_STORE = "default"

KINDS = {
    "stateStoreSave": "aggregation",
    "StatefulStreamlineAggregate": "aggregation (real-time mode)",
    "sessionWindowStateStoreSaveExec": "session window",
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "symmetricHashJoin": "stream-stream join",
    "applyInPandasWithState": "applyInPandasWithState",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPySparkExec": "transformWithState (Python)",
    "transformWithStateInPandasExec": "transformWithState (Pandas)",
    "globalLimit": "limit",
}

# These gather all rows in one task, so only partition 0 exists, whatever the settings say.
SINGLE_PARTITION = frozenset({"globalLimit"})


def counts_rows(store: str) -> bool:
    """Whether Spark counts the store's keys as rows of the operator.

    A join keeps its rows in one store per side and how many there are per key in another.
    """
    return not store.endswith("-keyToNumValues")


@dataclass(frozen=True, slots=True)
class Operator:
    """One stateful operator."""

    version: int
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Spark's name for the kind of operator."""
        return str(self.metadata["operatorInfo"]["operatorName"])

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of its stores, in the order in which commits list their ids."""
        return tuple(str(store["storeName"]) for store in self.metadata["stateStoreInfo"])

    def schema_locations(self, store: str) -> tuple[str, ...]:
        """Absolute locations of the store's schema files; version 2 only."""
        for info in self.metadata["stateStoreInfo"]:
            if info["storeName"] == store:
                return tuple(info.get("stateSchemaFilePaths", ()))
        return ()


def decode_operator(data: bytes, path: str) -> Operator:
    """Either version."""
    version, lines = split_version(data, path, (1, 2))
    operator = Operator(version, object_line(lines, path))
    try:
        _ = operator.name, [operator.schema_locations(store) for store in operator.stores]
    except (KeyError, TypeError) as cause:
        raise DamagedFile("file does not describe a stateful operator", path=path) from cause
    return operator


def encode_operator(operator: Operator) -> bytes:
    """The inverse of ``decode_operator``."""
    return f"v{operator.version}\n{to_json(operator.metadata)}".encode()


def relocated(operator: Operator, state_root: str) -> Operator:
    """The same operator with its schema files below ``state_root``, the place of ``state/<op>``."""
    infos = []
    for info in operator.metadata["stateStoreInfo"]:
        paths = [f"{state_root}/{schema_path(p)}" for p in info.get("stateSchemaFilePaths", ())]
        infos.append({**info, "stateSchemaFilePaths": paths} if paths else info)
    return Operator(operator.version, {**operator.metadata, "stateStoreInfo": infos})


def schema_path(location: str) -> str:
    """A schema file's path below ``state/<op>``, from its absolute location."""
    return "/".join(["_stateSchema", *location.split("/")[-2:]])
