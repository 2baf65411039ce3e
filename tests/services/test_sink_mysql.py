"""The sink for MariaDB and MySQL against a real server."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.sinks.distributed import Distributed
from holdfast.sinks.interface import Epoch, EpochSegment
from holdfast.sinks.mysql import xa as mysql_xa
from holdfast.sinks.mysql.server import MySqlRefused, MySqlUnavailable
from holdfast.sinks.mysql.sink import MySqlSink, mysql
from holdfast.sinks.mysql.upserts import MySqlUpserts
from holdfast.sinks.two_phase import Part
from tests.services.mariadb_server import DATABASE, PASSWORD, MariaDbServer
from tests.services.processes import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "0123456789abcdef" * 2
_tables = count(1)
_checkpoints = count(1)


@pytest.fixture
def table(mariadb: MariaDbServer) -> Iterator[str]:
    name = f"t{next(_tables)}"
    yield name
    mariadb.run(f"DROP TABLE IF EXISTS `{name}`")


@pytest.fixture
def counts(mariadb: MariaDbServer, table: str) -> str:
    """A table with a key, made by hand."""
    mariadb.run(
        f"CREATE TABLE {table} (k VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        " PRIMARY KEY, n BIGINT)"
    )
    return table


@pytest.fixture
def far_away(mariadb: MariaDbServer) -> Iterator[None]:
    """The server lives in another time zone."""
    mariadb.run("SET GLOBAL time_zone = '+09:00'")
    yield
    mariadb.run("SET GLOBAL time_zone = 'SYSTEM'")


def part(checkpoint: int = 1, number: int = 0, token: str = "abcd1234") -> Part:
    return Part(JOB, "out", checkpoint, number, token)


def kn(*rows: tuple[str, int]) -> pa.RecordBatch:
    return pa.record_batch({"k": [k for k, _ in rows], "n": [n for _, n in rows]})


def two_phase(mariadb: MariaDbServer, table: str, **options: Any) -> MySqlSink:
    sink = mysql(mariadb.url, table, **options)
    assert isinstance(sink, MySqlSink)
    return sink


def staged(spark: SparkSession, home: Path, *batches: DataFrame) -> Epoch:
    """An epoch of these batches, as a region stages them."""
    segments = []
    for number, rows in enumerate(batches):
        folder = home / f"{next(_checkpoints)}" / f"{number}-abc"
        rows.write.parquet(str(folder))
        files = tuple(str(file) for file in sorted(folder.glob("*.parquet")))
        segments.append(EpochSegment(number, files, sum(Path(f).stat().st_size for f in files)))
    schema = batches[0].schema if batches else spark.createDataFrame([], "k string").schema
    return Epoch(JOB, 1, "out", next(_checkpoints), segments, spark, schema)


def delivered(sink: MySqlSink, epoch: Epoch) -> None:
    through = Distributed(sink)
    through.check(epoch.spark, epoch.schema)
    through.commit(epoch, through.pre_commit(epoch))


def prepared(mariadb: MariaDbServer) -> Sequence[Any]:
    return mariadb.run("XA RECOVER")


class TestThroughSpark:
    def test_rows_are_appended_and_seen_only_after_the_commit(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, tmp_path: Path
    ) -> None:
        epoch = staged(spark, tmp_path, spark.range(1000), spark.range(1000, 1500))
        sink = Distributed(two_phase(mariadb, table, create=True))
        sink.check(spark, epoch.schema)
        handle = sink.pre_commit(epoch)
        assert mariadb.run(f"SELECT * FROM {table}") == []
        assert len(handle["parts"]) == 1, "one transaction, so that readers see all or nothing"
        sink.commit(epoch, json.loads(json.dumps(handle)))
        found = mariadb.run(f"SELECT id FROM {table} ORDER BY id")
        assert [row[0] for row in found] == list(range(1500))
        assert prepared(mariadb) == []

    def test_of_rows_with_one_key_that_of_the_newest_batch_stays(
        self, spark: SparkSession, mariadb: MariaDbServer, counts: str, tmp_path: Path
    ) -> None:
        mariadb.run(f"INSERT INTO {counts} VALUES ('a', -1), ('old', -1)")
        first = spark.createDataFrame([("a", 1), ("b", 1), ("c", 1)], "k string, n long")
        second = spark.createDataFrame([("b", 2), ("A", 2)], "k string, n long")
        sink = two_phase(mariadb, counts, key="k", parallelism=2)
        delivered(sink, staged(spark, tmp_path, first, second))
        found = dict(mariadb.run(f"SELECT k, n FROM {counts}"))
        assert found == {"a": 1, "A": 2, "b": 2, "c": 1, "old": -1}

    def test_a_row_without_a_key_is_refused_and_nothing_stays_behind(
        self, spark: SparkSession, mariadb: MariaDbServer, counts: str, tmp_path: Path
    ) -> None:
        rows = spark.createDataFrame([("a", 1), (None, 2)], "k string, n long")
        sink = Distributed(two_phase(mariadb, counts, key="k"))
        with pytest.raises(Exception, match="no value in key column 'k'"):
            sink.pre_commit(staged(spark, tmp_path, rows))
        assert prepared(mariadb) == []
        assert mariadb.run(f"SELECT * FROM {counts}") == []

    def test_an_epoch_without_rows_needs_no_transaction(
        self, spark: SparkSession, mariadb: MariaDbServer, counts: str, tmp_path: Path
    ) -> None:
        sink = Distributed(two_phase(mariadb, counts, key="k"))
        nothing = spark.createDataFrame([], "k string, n long")
        for epoch in (staged(spark, tmp_path), staged(spark, tmp_path, nothing)):
            handle = sink.pre_commit(epoch)
            assert handle["parts"] == []
            sink.commit(epoch, handle)

    def test_what_an_earlier_try_has_prepared_is_gone_after_the_next(
        self, spark: SparkSession, mariadb: MariaDbServer, counts: str, tmp_path: Path
    ) -> None:
        forgotten = two_phase(mariadb, counts, key="k")
        handle = forgotten.begin(part(token="lost0001"))
        forgotten.invoke(handle, kn(("a", 1)))
        forgotten.pre_commit(handle)
        forgotten.close()
        rows = spark.createDataFrame([("a", 2)], "k string, n long")
        delivered(two_phase(mariadb, counts, key="k"), staged(spark, tmp_path, rows))
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 2)]
        assert prepared(mariadb) == []

    def test_a_reader_never_sees_a_part_of_an_epoch(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, tmp_path: Path
    ) -> None:
        epoch = staged(spark, tmp_path, spark.range(2000))
        sink = two_phase(mariadb, table, create=True)
        Distributed(sink).check(spark, epoch.schema)
        seen: set[int] = set()
        done = threading.Event()

        def poll() -> None:
            reader = mariadb.connect(database=DATABASE, autocommit=True)
            with reader.cursor() as cursor:
                while not done.is_set():
                    cursor.execute(f"SELECT count(*) FROM {table}")
                    seen.add(cursor.fetchone()[0])
            reader.close()

        polling = threading.Thread(target=poll, daemon=True)
        polling.start()
        try:
            for _ in range(3):
                delivered(sink, epoch)
            wait_until(lambda: 6000 in seen, "the last epoch is seen")
        finally:
            done.set()
            polling.join()
        assert seen <= {0, 2000, 4000, 6000}

    def test_batches_are_upserted_at_once_when_that_is_wanted(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str
    ) -> None:
        sink = mysql(mariadb.url, table, key="k.1", create=True, delivery="idempotent")
        assert isinstance(sink, MySqlUpserts)
        given = [("a", 1), ("b", 1), ("a", 2), ("B", 3)]
        rows = spark.createDataFrame(given, "`k.1` string, `n``2` long").coalesce(1)
        for _ in range(2):  # after a crash the batch comes again
            sink.write(rows, 0)
            assert dict(mariadb.run(f"SELECT * FROM {table}")) == {"a": 2, "b": 1, "B": 3}
        with pytest.raises(Exception, match=r"no value in key column 'k\.1'"):
            sink.write(spark.createDataFrame([(None, 1)], rows.schema), 1)


def all_types(spark: SparkSession) -> DataFrame:
    """Two rows, one of values, one of nulls."""
    return spark.sql(
        r"""SELECT id = 0 AS `first`,
        if(id = 0, true, null) AS boolean,
        if(id = 0, -128Y, null) AS byte,
        if(id = 0, -32768S, null) AS short,
        if(id = 0, -2147483648, null) AS int,
        if(id = 0, -9223372036854775808L, null) AS long,
        if(id = 0, cast(0.1 AS float), null) AS float,
        if(id = 0, 1.7976931348623157E308D, null) AS double,
        if(id = 0, 4.9E-324D, null) AS tiny_double,
        if(id = 0, -12345678901234567890123456789012345678BD, null) AS decimal_whole,
        if(id = 0, cast('0.00000000012345678901234567890123456789' AS decimal(38,38)), null)
            AS decimal_small,
        if(id = 0, 'it''s "\\" \n\r\t\0\Z% grün 𝄞😀 ', null) AS string,
        if(id = 0, '', null) AS empty,
        if(id = 0, X'00275C22FFF09F0A1A', null) AS binary,
        if(id = 0, DATE'0001-01-01', null) AS date_early,
        if(id = 0, DATE'9999-12-31', null) AS date_late,
        if(id = 0, TIMESTAMP'2024-07-01T12:00:00.123456Z', null) AS instant,
        if(id = 0, TIMESTAMP'1900-01-01T00:00:00.000001Z', null) AS instant_early,
        if(id = 0, TIMESTAMP_NTZ'2024-03-10T02:30:00.5', null) AS wall_clock,
        if(id = 0, TIME'23:59:59.999999', null) AS time_of_day,
        if(id = 0, array(1.50BD, null), null) AS decimals,
        if(id = 0, map('ä', X'00FF', 'b', null), null) AS bytes_by_name,
        if(id = 0, named_struct('at', TIMESTAMP'2024-07-01T12:00:00Z', 'q', 'a"b\\'), null)
            AS struct,
        if(id = 0, parse_json('{"a": [1, "x"]}'), null) AS variant
        FROM range(2)"""
    )


EXPECTED = {
    "boolean": 1,
    "byte": -128,
    "short": -32768,
    "int": -(2**31),
    "long": -(2**63),
    "float": 0.10000000149011612,
    "double": 1.7976931348623157e308,
    "tiny_double": 4.9e-324,
    "decimal_whole": Decimal("-12345678901234567890123456789012345678"),
    "decimal_small": Decimal("0.00000000012345678901234567890123456789"),
    "string": 'it\'s "\\" \n\r\t\0\x1a% grün 𝄞😀 ',
    "empty": "",
    "binary": bytes.fromhex("00275C22FFF09F0A1A"),
    "date_early": date(1, 1, 1),
    "date_late": date(9999, 12, 31),
    "instant": datetime(2024, 7, 1, 12, 0, 0, 123456),
    "instant_early": datetime(1900, 1, 1, 0, 0, 0, 1),
    "wall_clock": datetime(2024, 3, 10, 2, 30, 0, 500000),
    "time_of_day": timedelta(hours=23, minutes=59, seconds=59, microseconds=999999),
}
EXPECTED_JSON = {
    "decimals": [1.5, None],
    "bytes_by_name": {"ä": "AP8=", "b": None},
    "variant": {"a": [1, "x"]},
}


class TestTypes:
    @pytest.mark.usefixtures("far_away")
    @pytest.mark.parametrize("key", [None, "first"])
    def test_all_types_come_back_with_their_values(
        self,
        spark: SparkSession,
        mariadb: MariaDbServer,
        table: str,
        tmp_path: Path,
        key: str | None,
    ) -> None:
        # Neither Spark's zone nor the server's may move a time.
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        session.conf.set("spark.sql.timeType.enabled", "true")
        sink = two_phase(mariadb, table, create=True, key=key)
        delivered(sink, staged(session, tmp_path, all_types(session)))
        assert found(mariadb, table, EXPECTED) == [tuple(EXPECTED.values()), (None,) * 19]
        texts, nulls = found(mariadb, table, EXPECTED_JSON)
        assert list(map(json.loads, texts)) == list(EXPECTED_JSON.values())
        assert nulls == (None,) * len(EXPECTED_JSON)
        struct = json.loads(found(mariadb, table, ["struct"])[0][0])
        assert struct["q"] == 'a"b\\'
        assert "2024-07-01" in struct["at"]
        assert "12:00:00" in struct["at"]

    @pytest.mark.usefixtures("far_away")
    def test_instants_fit_a_column_of_instants(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, tmp_path: Path
    ) -> None:
        mariadb.run(f"CREATE TABLE {table} (at TIMESTAMP(6) NULL)")
        rows = spark.sql("SELECT TIMESTAMP'2024-07-01T12:00:00.5Z' AS at")
        delivered(two_phase(mariadb, table), staged(spark, tmp_path, rows))
        assert mariadb.run(f"SELECT unix_timestamp(at) FROM {table}") == [
            (Decimal(datetime(2024, 7, 1, 12, tzinfo=UTC).timestamp()) + Decimal("0.5"),)
        ]

    @pytest.mark.parametrize("value", ["double('NaN')", "float('inf')", "double('-inf')"])
    def test_numbers_that_the_server_does_not_have_are_refused(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, tmp_path: Path, value: str
    ) -> None:
        epoch = staged(spark, tmp_path, spark.sql(f"SELECT {value} AS x"))
        with pytest.raises(Exception, match="column 'x' has NaN or infinity"):
            delivered(two_phase(mariadb, table, create=True), epoch)
        assert prepared(mariadb) == []

    @pytest.mark.parametrize(
        "kind",
        ["INTERVAL '1' DAY", "INTERVAL '1' MONTH", "array(INTERVAL '1' DAY)", "null"],
    )
    def test_types_without_a_counterpart_are_refused_before_the_first_row(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, kind: str
    ) -> None:
        schema = spark.sql(f"SELECT {kind} AS odd").schema
        with pytest.raises(UsageError, match="'odd'"):
            two_phase(mariadb, table, create=True).check(spark, schema)

    def test_names_may_have_any_characters(
        self, spark: SparkSession, mariadb: MariaDbServer
    ) -> None:
        odd = "a`b'c\"d;-- %s {} ü.dot"
        target = ("odd.base", "or`der %s")
        schema = spark.createDataFrame([(1, "x")], ["k", "v"]).toDF(odd, "select").schema
        sink = mysql(mariadb.url, target, key=odd, create=True)
        assert isinstance(sink, MySqlSink)
        sink.check(spark, schema)
        handle = sink.begin(part())
        sink.invoke(handle, pa.record_batch({odd: [1], "select": ["x"]}))
        sink.pre_commit(handle)
        sink.commit(handle)
        sink.close()
        assert mariadb.run("SELECT * FROM `odd.base`.`or``der %s`") == [(1, "x")]

    def test_rows_of_any_size_are_cut_into_packets(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, tmp_path: Path
    ) -> None:
        rows = spark.sql("SELECT id, repeat('x', 900000) AS text FROM range(12)")
        delivered(two_phase(mariadb, table, create=True), staged(spark, tmp_path, rows))
        lengths = mariadb.run(f"SELECT count(*), min(length(text)) FROM {table}")
        assert lengths == [(12, 900000)]
        rows = spark.sql("SELECT 1L AS id, repeat('x', 5000000) AS text")
        with pytest.raises(Exception, match="larger than the server takes"):
            delivered(two_phase(mariadb, table), staged(spark, tmp_path, rows))


def found(mariadb: MariaDbServer, table: str, columns: Any) -> list[tuple[Any, ...]]:
    names = ", ".join(f"`{name}`" for name in columns)
    return mariadb.run("SET NAMES utf8mb4", f"SELECT {names} FROM {table} ORDER BY `first` DESC")


class TestMisfits:
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY", "has no column 'n'"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n INT", "'n' is int"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT UNSIGNED", "unsigned"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT, m INT NOT NULL", "'m'"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin, n BIGINT", "no unique index"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin, n BIGINT, UNIQUE (k(3))", "no unique index"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT AS (1)", "computed"),
            ("k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, n BIGINT", "same key"),
            ("k VARCHAR(9) CHARACTER SET latin1 PRIMARY KEY, n BIGINT", "character set latin1"),
            ("k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT UNIQUE", "another unique"),
        ],
    )
    def test_a_table_that_does_not_fit_is_refused(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, columns: str, message: str
    ) -> None:
        mariadb.run(f"CREATE TABLE {table} ({columns}) DEFAULT CHARSET utf8mb4")
        schema = spark.createDataFrame([], "k string, n long").schema
        with pytest.raises(UsageError, match=message):
            two_phase(mariadb, table, key="k").check(spark, schema)

    @pytest.mark.parametrize(
        "columns",
        [
            "K VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, N DECIMAL(19), m INT AS (1)",
            "k VARCHAR(9) COLLATE utf8mb4_bin UNIQUE, n BIGINT, id INT AUTO_INCREMENT PRIMARY KEY",
            "k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT, m INT NOT NULL DEFAULT 3",
        ],
    )
    def test_a_table_that_has_more_than_is_needed_is_taken(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str, columns: str
    ) -> None:
        mariadb.run(f"CREATE TABLE {table} ({columns}) DEFAULT CHARSET utf8mb4")
        schema = spark.createDataFrame([], "k string, n long").schema
        two_phase(mariadb, table, key="k").check(spark, schema)

    def test_only_tables_that_keep_prepared_transactions_will_do(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str
    ) -> None:
        mariadb.run(f"CREATE TABLE {table} (id BIGINT) ENGINE=Aria")
        with pytest.raises(UsageError, match="only InnoDB"):
            two_phase(mariadb, table).check(spark, spark.range(1).schema)

    def test_parts_need_the_primary_key(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str
    ) -> None:
        mariadb.run(f"CREATE TABLE {table} (nr INT AUTO_INCREMENT PRIMARY KEY, id BIGINT UNIQUE)")
        two_phase(mariadb, table, key="id").check(spark, spark.range(1).schema)
        with pytest.raises(UsageError, match="primary key"):
            two_phase(mariadb, table, key="id", parallelism=2).check(spark, spark.range(1).schema)

    def test_a_missing_table_is_told(self, spark: SparkSession, mariadb: MariaDbServer) -> None:
        with pytest.raises(UsageError, match=r"there is no table tests\.nowhere") as told:
            two_phase(mariadb, "nowhere").check(spark, spark.range(1).schema)
        assert "create=True" in str(told.value)

    @pytest.mark.parametrize(
        ("setting", "bad", "good"),
        [
            ("innodb_flush_log_at_trx_commit", "0", "1"),
            ("binlog_format", "'STATEMENT'", "'MIXED'"),
        ],
    )
    def test_a_server_that_could_forget_is_refused(
        self,
        spark: SparkSession,
        mariadb: MariaDbServer,
        table: str,
        setting: str,
        bad: str,
        good: str,
    ) -> None:
        mariadb.run(f"SET GLOBAL {setting} = {bad}")
        try:
            with pytest.raises(UsageError) as told:
                two_phase(mariadb, table, create=True).check(spark, spark.range(1).schema)
        finally:
            mariadb.run(f"SET GLOBAL {setting} = {good}")
        assert setting in str(told.value)

    def test_a_wrong_password_is_told_without_showing_it(
        self, spark: SparkSession, mariadb: MariaDbServer, table: str
    ) -> None:
        sink = mysql(mariadb.url.replace("w%C3%B6rd", "secret"), table)
        with pytest.raises(UsageError, match="does not let this user in") as told:
            sink.check(spark, spark.range(1).schema)
        assert "secret" not in f"{told.value}{sink!r}{told.value.__cause__}"

    def test_a_row_that_is_there_already_is_not_appended(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        mariadb.run(f"INSERT INTO {counts} VALUES ('a', 1)")
        sink = two_phase(mariadb, counts)
        handle = sink.begin(part())
        with pytest.raises(MySqlRefused, match="Duplicate entry"):
            sink.invoke(handle, kn(("a", 2)))
        sink.abort(handle)
        sink.close()


class TestTransactions:
    def prepare(
        self,
        mariadb: MariaDbServer,
        table: str,
        checkpoint: int = 1,
        row: tuple[str, int] = ("a", 1),
    ) -> dict[str, Any]:
        sink = two_phase(mariadb, table, key="k")
        handle = sink.begin(part(checkpoint))
        sink.invoke(handle, kn(row))
        sink.pre_commit(handle)
        sink.close()
        return dict(handle)

    def test_a_handle_is_enough_for_another_process(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        handle = json.loads(json.dumps(self.prepare(mariadb, counts)))
        other = pickle.loads(pickle.dumps(two_phase(mariadb, counts, key="k")))
        assert "pa" not in "".join(map(str, handle.values())).split("_")
        other.commit(handle)
        other.commit(handle)
        other.recover_and_commit(handle)
        other.close()
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 1)]

    def test_abort_may_come_often_and_for_what_never_was(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        handle = self.prepare(mariadb, counts)
        sink = two_phase(mariadb, counts, key="k")
        sink.abort(handle)
        sink.abort(handle)
        sink.abort({**handle, "part": "9_9_unknown1"})
        sink.close()
        assert mariadb.run(f"SELECT * FROM {counts}") == []
        assert prepared(mariadb) == []

    def test_an_open_transaction_is_aborted_by_its_own_task(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        sink = two_phase(mariadb, counts, key="k")
        handle = sink.begin(part())
        sink.invoke(handle, kn(("a", 1)))
        sink.abort(handle)
        sink.close()
        self.prepare(mariadb, counts)  # which needs the same row
        sink.abort(handle)
        sink.close()
        assert prepared(mariadb) == []

    def test_pending_finds_those_of_this_job_and_sink_only(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        handle = self.prepare(mariadb, counts, checkpoint=12)
        sink = two_phase(mariadb, counts, key="k")
        assert sink.pending(JOB, "out") == [handle]
        assert sink.pending(JOB, "ou") == sink.pending(JOB[::-1], "out") == []
        assert "12_0_" in sink.describe(handle)
        assert PASSWORD not in sink.describe(handle)
        sink.abort(handle)
        sink.close()

    def test_transactions_of_other_programs_are_left_alone(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        other = mariadb.connect(database=DATABASE, autocommit=True)
        for verb in ("START", "END", "PREPARE"):
            other.cursor().execute(f"XA {verb} X'FF00FE', X'00', 7")
        sink = two_phase(mariadb, counts, key="k")
        assert sink.pending(JOB, "out") == []
        sink.close()
        other.cursor().execute("XA ROLLBACK X'FF00FE', X'00', 7")
        other.close()

    def test_a_commit_waits_for_the_connection_that_prepared(
        self, mariadb: MariaDbServer, counts: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        holding = mariadb.connect(database=DATABASE, autocommit=True)
        name = mysql_xa.xid(part())
        mysql_xa.start(holding, name)
        holding.query(f"INSERT INTO {counts} VALUES ('a', 1)")
        mysql_xa.prepare(holding, name)
        sink = two_phase(mariadb, counts, key="k")
        (handle,) = sink.pending(JOB, "out")
        monkeypatch.setattr(mysql_xa, "_PATIENCE", 0.1)
        for finish in (sink.commit, sink.abort):
            with pytest.raises(MySqlUnavailable, match="still holds it") as told:
                finish(handle)
            assert told.value.retryable
        holding.close()
        monkeypatch.undo()
        sink.commit(handle)
        sink.close()
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 1)]

    def test_rows_come_once_when_the_server_is_killed_in_between(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        handle = self.prepare(mariadb, counts)
        stray = two_phase(mariadb, counts, key="k")
        begun = stray.begin(part(2))
        stray.invoke(begun, kn(("b", 1)))
        sink = two_phase(mariadb, counts, key="k")
        assert sink.pending(JOB, "out") == [handle]
        mariadb.kill()
        for _ in range(2):
            with pytest.raises(MySqlUnavailable) as told:
                sink.commit(handle)
            assert told.value.retryable
        mariadb.start()
        with pytest.raises(MySqlUnavailable):
            stray.pre_commit(begun)
        stray.abort(begun)
        stray.close()
        assert sink.pending(JOB, "out") == [handle]
        sink.recover_and_commit(handle)
        sink.recover_and_commit(handle)
        sink.close()
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 1)]
        mariadb.kill()
        mariadb.start()
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 1)]
        assert prepared(mariadb) == []

    def test_rows_that_change_nothing_can_be_committed_after_a_crash(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        sink = two_phase(mariadb, counts, key="k")
        sink.commit(self.prepare(mariadb, counts, 1))
        handle = self.prepare(mariadb, counts, 2)
        sink.close()
        mariadb.kill()
        mariadb.start()
        sink.commit(handle)
        sink.close()
        assert mariadb.run(f"SELECT * FROM {counts}") == [("a", 1)]

    def test_a_forgotten_transaction_does_not_block_for_ever(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        handle = self.prepare(mariadb, counts)
        sink = mysql(f"{mariadb.url}?lock_wait_timeout=1", counts, key="k")
        assert isinstance(sink, MySqlSink)
        waiting = sink.begin(part(2))
        with pytest.raises(MySqlUnavailable, match="Lock wait timeout") as told:
            sink.invoke(waiting, kn(("a", 2)))
        assert "XA RECOVER" in str(told.value)
        sink.abort(waiting)
        sink.abort(handle)
        sink.close()

    def test_parts_with_different_keys_do_not_wait_for_each_other(
        self, mariadb: MariaDbServer, counts: str
    ) -> None:
        expected: dict[str, int] = {}
        for epoch in range(1, 6):
            assert in_parallel(4, partial(self.upsert, mariadb, counts, epoch)) == []
            sink = two_phase(mariadb, counts, key="k")
            for handle in sink.pending(JOB, "out"):
                sink.commit(handle)
            sink.close()
            expected |= {key: epoch for number in range(4) for key in self.keys(epoch, number)}
        assert dict(mariadb.run(f"SELECT k, n FROM {counts}")) == expected

    def keys(self, epoch: int, number: int) -> list[str]:
        """Neighbours belong to different parts; each epoch changes some and adds some."""
        return [f"{n:05}" for n in range(number, 1600, 4) if n // 16 % 5 in (epoch % 5, 0)]

    def upsert(self, mariadb: MariaDbServer, table: str, epoch: int, number: int) -> None:
        url = f"{mariadb.url}?lock_wait_timeout=3"
        sink = mysql(url, table, key="k", parallelism=4)
        assert isinstance(sink, MySqlSink)
        try:
            handle = sink.begin(part(epoch, number))
            keys = self.keys(epoch, number)
            for first in range(0, len(keys), 20):
                sink.invoke(handle, kn(*((key, epoch) for key in keys[first : first + 20])))
            sink.pre_commit(handle)
        finally:
            sink.close()


def in_parallel(count: int, work: Callable[[int], None]) -> list[HoldfastError]:
    problems: list[HoldfastError] = []
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait()
        try:
            work(number)
        except HoldfastError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
