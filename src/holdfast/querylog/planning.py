"""The state handle: exactly the files that are needed to restart from a committed batch.

For batch N these are, and nothing else is:

1. ``metadata``, ``offsets/N``, ``commits/N``, and ``offsets/N-1`` unless N is the first;
2. of each file source the log entries up to N's offset; of other sources their whole directory;
3. of each stateful operator its description and schemas, and of each partition of each of its
   stores the files of version N+1.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import QueryLogError, UnknownFormat
from holdfast.querylog.batches import (
    CODEC_SETTING,
    METADATA,
    PARTITIONS_SETTING,
    PROVIDER_SETTING,
    Offsets,
    commit_path,
    offsets_path,
)
from holdfast.querylog.changelog import StateVersion
from holdfast.querylog.log import QueryLog
from holdfast.querylog.needs import NeededFile, Plan, Problem, Role, StoreVersion
from holdfast.querylog.operators import DEFAULT_STORE, SINGLE_PARTITION, Operator, schema_path
from holdfast.querylog.sourcelog import chain, log_offset
from holdfast.querylog.versions import (
    VersionFiles,
    hashmap_version,
    is_gapless,
    lineage_version,
    rocksdb_version,
    zip_name,
)

_BACKENDS = {"HDFSBackedStateStoreProvider": "hashmap", "RocksDBStateStoreProvider": "rocksdb"}


def backend_of(offsets: Offsets, path: str) -> str:
    """``hashmap`` or ``rocksdb``."""
    provider = offsets.settings.get(PROVIDER_SETTING, "HDFSBackedStateStoreProvider")
    backend = _BACKENDS.get(provider.rpartition(".")[2])
    if backend is None:
        raise UnknownFormat(
            f"state is kept by {provider}, whose files are not known",
            hint="Known are Spark's HDFSBackedStateStoreProvider and RocksDBStateStoreProvider.",
            path=path,
        )
    return backend


def plan_handle(log: QueryLog, batch: int, *, with_unfinished: bool) -> Plan:
    """Work out what ``batch`` needs; what is missing or contradictory becomes a problem.

    ``with_unfinished`` adds the plan of the batch after it, if one was made, so that Spark runs
    it with the same offsets and a sink that saw part of it is not given other rows.
    """
    return _Planner(log, batch).plan(with_unfinished)


class _Planner:
    def __init__(self, log: QueryLog, batch: int) -> None:
        self._log = log
        self._batch = batch
        self._files: dict[str, NeededFile] = {}
        self._stores: list[StoreVersion] = []
        self._problems: list[Problem] = []
        self._backend = "hashmap"
        self._codec = "lz4"

    def plan(self, with_unfinished: bool) -> Plan:
        self._attempt(lambda: self._batch_files(with_unfinished))
        for operator in self._log.operator_ids:
            self._attempt(lambda op=operator: self._operator(op))  # type: ignore[misc]
        files = tuple(sorted(self._files.values(), key=lambda f: f.path))
        return Plan(
            self._batch,
            self._backend,
            self._codec,
            files,
            tuple(self._stores),
            tuple(self._problems),
        )

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except QueryLogError as error:
            self._problem(str(error.ids.get("path", "")), error.message, error.hint)

    def _problem(self, path: str, what: str, hint: str | None = None) -> None:
        problem = Problem(path, what, hint)
        if problem not in self._problems:
            self._problems.append(problem)

    def _need(self, path: str, role: Role, size: int | None = None) -> bool:
        info = self._log.files.get(path)
        if info is None:
            self._problem(self._log.storage.locate(path), f"{role.value} file is missing")
            return False
        if size is not None and info.size != size:
            what = f"{role.value} file has {info.size} bytes and must have {size}"
            self._problem(self._log.storage.locate(path), what)
        self._files[path] = NeededFile(path, info.size, role)
        return True

    def _batch_files(self, with_unfinished: bool) -> None:
        self._need(METADATA, Role.QUERY_ID)
        if self._batch > 0:
            self._need(offsets_path(self._batch - 1), Role.OFFSETS)
        committed = self._need(commit_path(self._batch), Role.COMMIT)
        if not self._need(offsets_path(self._batch), Role.OFFSETS):
            return
        offsets = self._log.offsets(self._batch)
        self._backend = backend_of(offsets, offsets_path(self._batch))
        self._codec = offsets.settings.get(CODEC_SETTING, "lz4")
        reached = offsets
        if with_unfinished and self._batch + 1 in self._log.unfinished:
            self._need(offsets_path(self._batch + 1), Role.OFFSETS)
            reached = self._log.offsets(self._batch + 1)
        for name, offset in reached.sources.items():
            self._source(name, offset)
        if committed:
            self._log.commit(self._batch)

    def _source(self, name: str, offset: str | None) -> None:
        folder = f"sources/{name}"
        names = self._log.names(folder)
        upto = log_offset(offset)
        if upto is None and name in self._log.file_sources:
            return  # it had read nothing yet, and will find its files again
        if upto is None:
            for file in names:
                self._need(f"{folder}/{file}", Role.SOURCE)
            return
        needed = chain(names, upto)
        for file in needed.names:
            self._need(f"{folder}/{file}", Role.SOURCE_LOG)
        if needed.missing is not None:
            self._problem(
                self._log.storage.locate(f"{folder}/{needed.missing}"),
                f"{Role.SOURCE_LOG.value} file is missing, and no compact one replaces it",
            )

    def _operator(self, number: int) -> None:
        path = self._log.operator_path(number, self._batch)
        if not self._need(path, Role.OPERATOR) or commit_path(self._batch) not in self._log.files:
            return
        if offsets_path(self._batch) not in self._log.files:
            return
        operator = self._log.operator(number, self._batch)
        for store in operator.stores:
            for schema in schema_files(number, store, operator):
                self._need(schema, Role.SCHEMA)
        ids = self._log.commit(self._batch).state_ids(number)
        for partition in range(self._partitions(number, operator, ids)):
            for at, store in enumerate(operator.stores):
                version = _state_version(self._batch + 1, ids, partition, at, operator, path)
                self._attempt(
                    lambda p=partition, s=store, v=version: self._store(number, s, p, v)  # type: ignore[misc]
                )

    def _partitions(
        self, number: int, operator: Operator, ids: tuple[tuple[str, ...], ...] | None
    ) -> int:
        if ids is not None:
            return len(ids)
        if operator.name in SINGLE_PARTITION or not self._has_key(number, operator):
            return 1
        settings = self._log.offsets(self._batch).settings
        try:
            return int(settings[PARTITIONS_SETTING])
        except (KeyError, ValueError) as cause:
            raise UnknownFormat(
                f"offsets do not say how many state partitions there are ({PARTITIONS_SETTING})",
                path=self._log.storage.locate(offsets_path(self._batch)),
            ) from cause

    def _has_key(self, number: int, operator: Operator) -> bool:
        # An aggregation without keys runs in one task: partition 0 alone has files.
        for path in schema_files(number, operator.stores[0], operator):
            if path in self._log.files:
                return any(family.has_key for family in self._log.schema(path).families)
        return True

    def _store(
        self, operator: int, store: str, partition: int, version: int | StateVersion
    ) -> None:
        folder = store_folder(operator, partition, store)
        names = self._log.names(folder)
        if isinstance(version, StateVersion):
            files = self._by_lineage(folder, version)
        elif self._backend == "hashmap":
            files = hashmap_version(names, version)
        else:
            files = rocksdb_version(names, version)
        if files is None:
            return
        self._stores.append(StoreVersion(operator, store, partition, folder, files))
        self._need_version(folder, files)

    def _by_lineage(self, folder: str, version: StateVersion) -> VersionFiles | None:
        names = self._log.names(folder)
        if zip_name(version) in names:
            return VersionFiles(zip_name(version), ())
        lineage = self._log.lineage(folder, version, self._codec)
        if not is_gapless(lineage, version):
            self._problem(self._log.storage.locate(folder), f"lineage of {version} has a gap")
        files = lineage_version(names, version, lineage)
        if files is None:
            base = zip_name(lineage[0]) if lineage else zip_name(version)
            self._problem(
                self._log.storage.locate(f"{folder}/{base}"),
                f"{Role.ROCKSDB_ZIP.value} file is missing: no older one is in the lineage",
            )
        return files

    def _need_version(self, folder: str, files: VersionFiles) -> None:
        base, change = (
            (Role.SNAPSHOT, Role.DELTA)
            if self._backend == "hashmap"
            else (Role.ROCKSDB_ZIP, Role.CHANGELOG)
        )
        for name in files.changes:
            if f"{folder}/{name}" in self._log.files:
                self._need(f"{folder}/{name}", change)
            else:
                self._problem(
                    self._log.storage.locate(f"{folder}/{name}"),
                    f"{change.value} file is missing, and no {base.value} replaces it",
                )
        if files.base is None or not self._need(f"{folder}/{files.base}", base):
            return
        if base is Role.ROCKSDB_ZIP:
            self._shared(folder, files.base)

    def _shared(self, folder: str, name: str) -> None:
        for shared in self._log.snapshot(f"{folder}/{name}").shared_files:
            role = Role.ROCKSDB_TABLE if shared.is_table else Role.ROCKSDB_LOG
            self._need(f"{folder}/{shared.path}", role, shared.size)


def store_folder(operator: int, partition: int, store: str) -> str:
    """Where one partition of a store lies; the default store has no folder of its own."""
    root = f"state/{operator}/{partition}"
    return root if store == DEFAULT_STORE else f"{root}/{store}"


def schema_files(number: int, store: str, operator: Operator) -> tuple[str, ...]:
    """The schema files of a store: one in partition 0, or those that the description lists."""
    if operator.version == 1:
        return (f"{store_folder(number, 0, store)}/_metadata/schema",)
    listed = operator.schema_locations(store)
    return tuple(f"state/{number}/{schema_path(location)}" for location in listed)


def _state_version(
    version: int,
    ids: tuple[tuple[str, ...], ...] | None,
    partition: int,
    store: int,
    operator: Operator,
    path: str,
) -> int | StateVersion:
    if ids is None:
        return version
    stores = ids[partition]
    if len(stores) == len(operator.stores):
        return StateVersion(version, stores[store])
    if len(stores) == 1:
        return StateVersion(version, stores[0])
    raise UnknownFormat(
        f"commit names {len(stores)} state ids for {len(operator.stores)} stores", path=path
    )
