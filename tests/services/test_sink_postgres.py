"""The PostgreSQL sink on a real server: transactions, crashes, locks, what readers see."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import HoldfastError, UsageError
from holdfast.sinks.distributed import Distributed
from holdfast.sinks.postgres.session import PostgresFailure, Server
from holdfast.sinks.postgres.sink import PostgresSink, postgres
from holdfast.sinks.postgres.upserts import PostgresUpserts
from holdfast.sinks.tables import table
from holdfast.sinks.two_phase import Part
from holdfast.testing.sinks import Row, TwoPhaseCommitContract
from tests.services.epochs import JOB, SINK, epoch, written
from tests.services.postgres_server import PostgresServer, postgres_server

PASSWORD = "hunter2"
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"


class Database:
    """An empty database for one test."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.url = server.new_database()

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.run(*statements, url=self.url)

    def sink(self, name: str = "out", wait: float = 30.0, **options: Any) -> PostgresSink:
        """With its own patience for locks."""
        key = options.pop("key", None)
        return PostgresSink(Server(self.url, wait), table(name, key), **options)

    def prepared(self) -> list[str]:
        return [gid for (gid,) in self.run(PREPARED)]

    def clear(self) -> None:
        """Names of prepared transactions are the whole server's: the next test wants them too."""
        for gid in self.prepared():
            self.run(f"ROLLBACK PREPARED '{gid}'")


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    database = Database(postgres)
    yield database
    database.clear()


def batch(*rows: Row) -> pa.RecordBatch:
    ids, texts = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64()), "text": list(texts)})


def part(checkpoint: int = 1, number: int = 0, token: str = "aaaaaaaa", sink: str = SINK) -> Part:
    return Part(JOB, sink, checkpoint, number, token)


def prepare(sink: PostgresSink, what: Part, *rows: Row) -> dict[str, Any]:
    handle = sink.begin(what)
    sink.invoke(handle, batch(*rows))
    sink.pre_commit(handle)
    sink.close()
    return dict(handle)


class TestContract(TwoPhaseCommitContract):
    stride = 40

    @pytest.fixture(autouse=True)
    def store(self, database: Database) -> None:
        self.database = database
        self.database.run(
            "CREATE TABLE out (id bigint, text text)",
            "CREATE TABLE keyed (id bigint PRIMARY KEY, text text)",
        )

    def make_sink(self) -> PostgresSink:
        return self.database.sink()

    def make_keyed_sink(self) -> PostgresSink:
        return self.database.sink("keyed", wait=1, key="id")

    def restart_store(self) -> None:
        self.database.server.kill()
        self.database.server.start()

    def visible(self) -> list[Row]:
        both = "SELECT id, text FROM out UNION ALL SELECT id, text FROM keyed"
        return [(row[0], row[1]) for row in self.database.run(both)]


class TestEpochs:
    def rows(self, spark: SparkSession, *rows: Row) -> DataFrame:
        return spark.createDataFrame(list(rows), "id long, text string")

    @pytest.mark.parametrize("parallelism", [None, 2])
    def test_rows_are_appended_when_they_are_committed_and_not_before(
        self, database: Database, spark: SparkSession, tmp_path: Path, parallelism: int | None
    ) -> None:
        sink = Distributed(postgres_sink(database.url, create=True, parallelism=parallelism))
        rows = epoch(tmp_path, {0: spark.range(5000).repartition(4), 1: spark.range(5000, 6000)})
        sink.check(spark, rows.schema)
        handle = sink.pre_commit(rows)
        assert database.run("SELECT count(*) FROM out") == [(0,)]
        assert len(database.prepared()) == len(handle["parts"]) == (parallelism or 1)
        sink.commit(rows, handle)
        assert database.run("SELECT id FROM out ORDER BY id") == [(n,) for n in range(6000)]
        assert database.prepared() == []

    def test_of_rows_with_the_same_key_the_newest_replaces_what_is_there(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, key="id", create=True))
        old = {9: self.rows(spark, (1, "old"), (2, "stays"))}
        new = {
            9: self.rows(spark, (1, "newer"), (3, "x")).coalesce(1),
            10: self.rows(spark, (1, "first"), (1, "newest")).coalesce(1),
        }
        for checkpoint, batches in enumerate((old, new), start=1):
            written(sink, epoch(tmp_path, batches, checkpoint))
        found = database.run("SELECT id, text FROM out ORDER BY id")
        assert found == [(1, "newest"), (2, "stays"), (3, "x")]

    def test_a_row_without_a_key_is_refused_and_nothing_is_left(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, key="id", create=True))
        keyless = spark.createDataFrame([(1, "a"), (None, "b")], "id long, text string")
        with pytest.raises(Exception, match="rows have no value in key column 'id'"):
            written(sink, epoch(tmp_path, {0: keyless}))
        assert database.prepared() == []

    def test_rows_that_are_all_key_are_there_once(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, key=("id", "text"), create=True))
        rows = {0: self.rows(spark, (1, "a"), (1, "b"), (1, "a"))}
        for checkpoint in (1, 2):
            written(sink, epoch(tmp_path, rows, checkpoint))
        assert database.run("SELECT id, text FROM out ORDER BY text") == [(1, "a"), (1, "b")]

    def test_an_epoch_without_rows_needs_no_transaction(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, create=True))
        handle = written(sink, epoch(tmp_path, {0: spark.range(0)}))
        assert handle["parts"] == []
        assert database.run("SELECT count(*) FROM out") == [(0,)]

    def test_prepared_rows_appear_once_though_the_server_is_killed(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, create=True, parallelism=2))
        rows = epoch(tmp_path, {0: spark.range(1000).repartition(2)})
        sink.check(spark, rows.schema)
        handle = json.loads(json.dumps(sink.pre_commit(rows)))
        database.server.kill()
        with pytest.raises(PostgresFailure) as down:
            sink.commit(rows, handle)
        assert down.value.retryable
        database.server.start()
        sink.commit(rows, handle)
        sink.recover_and_commit(rows, handle)
        assert database.run("SELECT count(*), count(DISTINCT id) FROM out") == [(1000, 1000)]

    def test_a_reader_sees_whole_epochs_only(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = Distributed(postgres_sink(database.url, create=True))
        rows = {n: epoch(tmp_path, {0: spark.range(700).repartition(3)}, n) for n in range(1, 5)}
        sink.check(spark, rows[1].schema)
        with Reader(database.url) as reader:
            for one in rows.values():
                sink.commit(one, sink.pre_commit(one))
            reader.wait_for(2800)
        assert reader.seen <= {0, 700, 1400, 2100, 2800}

    def test_a_batch_is_upserted_at_once_and_again_without_harm(
        self, database: Database, spark: SparkSession
    ) -> None:
        sink = postgres(database.url, "out", key="id", create=True, delivery="idempotent")
        assert isinstance(sink, PostgresUpserts)
        rows = self.rows(spark, (1, "a"), (2, "b"), (1, "c")).coalesce(1)
        for number in (0, 0, 1):
            sink.write(rows, number)
        assert database.run("SELECT id, text FROM out ORDER BY id") == [(1, "c"), (2, "b")]
        assert database.prepared() == []

    def test_idempotent_delivery_also_refuses_rows_that_do_not_fit(
        self, database: Database, spark: SparkSession
    ) -> None:
        database.run("CREATE TABLE out (id bigint PRIMARY KEY, text integer)")
        sink = postgres(database.url, "out", key="id", delivery="idempotent")
        assert isinstance(sink, PostgresUpserts)
        with pytest.raises(UsageError, match="column 'text' is integer"):
            sink.write(self.rows(spark, (1, "a")), 0)


class Reader:
    """Counts the rows again and again, as somebody who looks at the table all the time."""

    def __init__(self, url: str) -> None:
        self.seen: set[int] = set()
        self._url = url
        self._changed = threading.Condition()
        self._stop = False
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stop:
                (found,) = connection.execute("SELECT count(*) FROM out").fetchone() or (0,)
                with self._changed:
                    self.seen.add(found)
                    self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: count in self.seen, timeout=60)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()


class TestTransactions:
    @pytest.fixture(autouse=True)
    def tables(self, database: Database) -> None:
        database.run("CREATE TABLE out (id bigint PRIMARY KEY, text text)")

    def test_a_sink_on_another_machine_commits_and_does_so_again(self, database: Database) -> None:
        handle = prepare(database.sink(), part(), (1, "a"))
        other = pickle.loads(pickle.dumps(database.sink()))
        for _ in range(2):
            other.commit(handle)
            other.close()
        assert database.run("SELECT id, text FROM out") == [(1, "a")]

    def test_aborting_again_or_what_never_was_does_nothing(self, database: Database) -> None:
        sink = database.sink()
        handle = prepare(sink, part(), (1, "a"))
        sink.abort(handle)
        sink.abort(handle)
        sink.abort({"checkpoint": 9, "gid": "holdfast_never_was"})
        assert database.prepared() == []
        assert database.run("SELECT * FROM out") == []

    def test_what_a_task_left_that_told_nobody_is_found(self, database: Database) -> None:
        handle = prepare(database.sink(), part(7, token="lost0000"), (1, "a"))
        prepare(database.sink(), part(7, sink="out_2"), (2, "of another sink"))
        sink = database.sink()
        assert sink.pending(JOB, SINK) == [handle]
        sink.abort(handle)
        assert sink.pending(JOB, SINK) == []
        assert len(database.prepared()) == 1

    def test_transactions_of_another_database_are_not_ours(
        self, database: Database, postgres: PostgresServer
    ) -> None:
        prepare(database.sink(), part(), (1, "a"))
        assert Database(postgres).sink().pending(JOB, SINK) == []

    def test_a_stray_transaction_that_holds_a_row_is_named_as_the_reason(
        self, database: Database
    ) -> None:
        prepare(database.sink(key="id"), part(token="stray000"), (1, "stray"))
        sink = database.sink(key="id", wait=0.2)
        handle = sink.begin(part(2))
        with pytest.raises(PostgresFailure, match="holdfast transactions list") as locked:
            sink.invoke(handle, batch((1, "ours")))
        assert locked.value.retryable
        sink.abort(handle)
        assert len(database.prepared()) == 1

    def test_the_next_epoch_aborts_a_stray_transaction_and_takes_its_row(
        self, database: Database, spark: SparkSession, tmp_path: Path
    ) -> None:
        prepare(database.sink(key="id"), part(token="stray000"), (1, "stray"))
        rows = spark.createDataFrame([(1, "ours")], "id long, text string")
        written(Distributed(database.sink(key="id", wait=0.2)), epoch(tmp_path, {0: rows}, 2))
        assert database.run("SELECT text FROM out") == [("ours",)]
        assert database.prepared() == []

    def test_a_connection_that_is_ended_in_the_middle_is_worth_another_try(
        self, database: Database
    ) -> None:
        sink = database.sink(key="id")
        handle = sink.begin(part())
        sink.invoke(handle, batch((1, "a")))
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(PostgresFailure) as lost:
            sink.pre_commit(handle)
        assert lost.value.retryable
        sink.abort(handle)
        prepare(sink, part(token="again000"), (1, "a"))
        assert len(database.prepared()) == 1

    def test_copying_over_a_connection_that_is_ended_is_worth_another_try(
        self, database: Database
    ) -> None:
        sink = database.sink()
        handle = sink.begin(part())
        sink.invoke(handle, batch((1, "a")))
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(PostgresFailure):
            sink.pre_commit(handle)
        sink.abort(handle)
        assert database.prepared() == []

    def test_a_row_that_the_table_refuses_is_said_with_the_reason(self, database: Database) -> None:
        database.run("ALTER TABLE out ADD CHECK (id > 0)")
        sink = database.sink()
        handle = sink.begin(part())
        sink.invoke(handle, batch((-1, "a")))
        with pytest.raises(UsageError, match="violates check constraint"):
            sink.pre_commit(handle)
        sink.abort(handle)

    def test_a_uid_that_makes_names_too_long_is_refused(self, database: Database) -> None:
        longest = part(sink="x" * 144)
        assert len(longest.name) == 199
        database.sink().abort(prepare(database.sink(), longest, (1, "a")))
        with pytest.raises(UsageError, match=r"has 200 bytes(.|\n)*1 bytes shorter"):
            database.sink().begin(part(sink="x" * 145))

    def test_a_transaction_is_described_for_a_person(self, database: Database) -> None:
        handle = prepare(database.sink(), part(), (1, "a"))
        told = database.sink().inquire(handle)
        assert told.startswith(f"{handle['gid']}: table out, database tests_")
        assert "owner postgres, prepared since 20" in told
        database.sink().commit(handle)
        assert "does not know it" in database.sink().inquire(handle)


class TestBeforeTheFirstRow:
    def test_a_server_that_is_not_there_is_an_error_without_the_password(
        self, spark: SparkSession
    ) -> None:
        sink = postgres_sink(f"postgresql://me:{PASSWORD}@127.0.0.1:1/db")
        with pytest.raises(PostgresFailure, match=r"cannot connect \(database db at 127") as down:
            sink.check(spark, spark.range(1).schema)
        assert down.value.retryable
        told = sink.inquire({"checkpoint": 1, "gid": "x"})
        assert "the server does not answer" in told
        assert PASSWORD not in f"{told} {down.value!r} {down.value} {sink!r}"

    def test_a_wrong_password_is_not_shown(self, postgres: PostgresServer) -> None:
        database = Database(postgres)
        server = Server(database.url.replace("postgres@", f"nobody:{PASSWORD}@"))
        with pytest.raises(HoldfastError) as refused:
            server.connect()
        assert PASSWORD not in str(refused.value)
        assert PASSWORD not in repr(server)

    def test_a_server_that_cannot_prepare_is_refused_with_what_to_set(
        self, spark: SparkSession
    ) -> None:
        with postgres_server(prepared=0) as server:
            sink = Distributed(postgres_sink(server.url(), create=True, parallelism=3))
            wanted = "ALTER SYSTEM SET max_prepared_transactions = 64"
            with pytest.raises(UsageError, match=wanted):
                sink.check(spark, spark.range(1).schema)
            server.restart(prepared=2)
            with pytest.raises(UsageError, match=r"allows 2 prepared transactions.* needs 3"):
                sink.check(spark, spark.range(1).schema)

    def test_a_table_that_is_missing_is_refused(
        self, database: Database, spark: SparkSession
    ) -> None:
        with pytest.raises(UsageError, match=r"there is no table out(.|\n)*create=True"):
            Distributed(database.sink()).check(spark, spark.range(1).schema)

    def test_a_user_without_rights_is_refused(
        self, database: Database, postgres: PostgresServer, spark: SparkSession
    ) -> None:
        user = f"reader_{database.url[-8:]}"
        database.run(
            "CREATE TABLE out (id bigint PRIMARY KEY)",
            f"CREATE USER {user}",
            f"GRANT SELECT ON out TO {user}",
        )
        sink = postgres_sink(database.url.replace("postgres@", f"{user}@"), key="id")
        with pytest.raises(UsageError, match="lacks the right to INSERT, UPDATE on out"):
            Distributed(sink).check(spark, spark.range(1).schema)

    @pytest.mark.parametrize(
        ("create", "reason"),
        [
            ("CREATE UNLOGGED TABLE out (id bigint)", "loses all rows when the server crashes"),
            ("CREATE VIEW out AS SELECT 1::bigint AS id", "not an ordinary table"),
        ],
    )
    def test_tables_that_cannot_keep_the_promise_are_refused(
        self, database: Database, spark: SparkSession, create: str, reason: str
    ) -> None:
        database.run(create)
        with pytest.raises(UsageError, match=reason):
            Distributed(database.sink()).check(spark, spark.range(1).schema)

    def test_everything_that_does_not_fit_is_told_at_once(
        self, database: Database, spark: SparkSession
    ) -> None:
        database.run(
            "CREATE TABLE out (id integer, at timestamp, price numeric(6, 2), must text NOT NULL, "
            "filled bigint NOT NULL DEFAULT 1, twice bigint GENERATED ALWAYS AS (id * 2) STORED)"
        )
        rows = spark.sql("SELECT 1L AS id, now() AS at, 1.5BD AS price, 2L AS twice, 'x' AS more")
        with pytest.raises(UsageError) as refused:
            Distributed(database.sink(key="id")).check(spark, rows.schema)
        problems = str(refused.value).split("\n  - ")[1:]
        assert len(problems) == 6, problems
        for word in ("'id' is integer", "'at'", "'twice'", "'more'", "'must'", "unique index"):
            assert any(word in problem for problem in problems), word


def postgres_sink(url: str, **options: Any) -> PostgresSink:
    sink = postgres(url, "out", **options)
    assert isinstance(sink, PostgresSink)
    return sink
