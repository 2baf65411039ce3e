"""``holdfast log state`` on a real query log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from typer.testing import CliRunner, Result

from holdfast.cli.app import app

KEYS = 30
COMMAND = [sys.executable, "-m", "holdfast.cli", "log", "state"]


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches. State has a nested key, long decimals, nulls, and two fields of one name."""
    home = tmp_path_factory.mktemp("cli")
    for batch in range(2):
        rows = [
            {"k": f"k{n}", "v": f"{n}.{'0' * 24}1", "ts": "2026-01-01T00:00:05Z"}
            for n in range(KEYS)
        ]
        (home / "input").mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (home / "input" / f"{batch}.json").write_text(lines)
    session = spark.newSession()
    session.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    query = (
        session.readStream.schema("k string, v decimal(38,25), ts timestamp, none string")
        .option("maxFilesPerTrigger", 1)
        .json(str(home / "input"))
        .groupBy("k", F.window("ts", "10 seconds"))
        .agg(F.count("*").alias("n"), F.max("v").alias("v"), F.max("none").alias("none"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(home / "log"))
        .format("noop")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return home / "log"


def state(log: Path, *args: object) -> Result:
    given = ["log", "state", str(log), *map(str, args)]
    return CliRunner().invoke(app, given, env={"COLUMNS": "200"})


def as_document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_rows_are_shown_as_a_table_with_flat_columns(log: Path) -> None:
    result = state(log, "--where", "key.k = 'k7'")
    assert result.exit_code == 0, result.stderr
    header, _, row, count = result.stdout.splitlines()[1:]
    columns = "key.k key.window value.count value.max value.max_2 partition_id"
    assert header.split() == columns.split()
    cells = [cell.strip() for cell in row.split("  ")]
    assert cells[0] == "k7"
    window = {"start": "2026-01-01T00:00:00.000Z", "end": "2026-01-01T00:00:10.000Z"}
    assert json.loads(next(c for c in cells if c.startswith("{"))) == window
    assert "7.0000000000000000000000001" in row  # every digit
    assert "null" in row
    assert count == "1 row."


def test_twenty_rows_are_shown_unless_told_otherwise(log: Path) -> None:
    assert "20 rows shown; there are more." in state(log).stdout
    assert "3 rows shown; there are more." in state(log, "--limit", 3).stdout
    assert f"{KEYS} rows." in state(log, "--limit", KEYS).stdout


def test_json_is_one_document_with_every_digit(log: Path) -> None:
    result = state(log, "--json", "--where", "key.k = 'k7'")
    document = as_document(result)
    assert (document["operator"], document["batch"], document["more"]) == (0, 1, False)
    (row,) = document["rows"]
    assert row["key"]["k"] == "k7"
    assert row["value"]["count"] == 2
    assert '"max":7.0000000000000000000000001' in result.stdout
    assert as_document(state(log, "--json"))["more"] is True


def test_json_of_no_rows_is_a_document_too(log: Path) -> None:
    assert as_document(state(log, "--json", "--where", "key.k = 'none'"))["rows"] == []


def test_an_older_batch_has_older_state(log: Path) -> None:
    rows = as_document(state(log, "--json", "--batch", 0))["rows"]
    assert {row["value"]["count"] for row in rows} == {1}


def test_export_writes_exactly_one_parquet_file(
    log: Path, tmp_path: Path, spark: SparkSession
) -> None:
    file = tmp_path / "state.parquet"
    document = as_document(state(log, "--export", file, "--json"))
    assert (document["rows"], document["bytes"]) == (KEYS, file.stat().st_size)
    assert list(tmp_path.iterdir()) == [file]
    assert file.is_file()
    assert spark.read.parquet(str(file)).where("value.count = 2").count() == KEYS


def test_export_takes_the_condition_and_the_limit(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "state.parquet"
    result = state(log, "--export", file, "--where", "key.k like 'k1%'", "--limit", 5)
    assert "5 rows" in result.stdout
    assert state(log, "--export", file).exit_code == 2


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("key.k = = 1", "PARSE_SYNTAX_ERROR"),
        ("key.nope = 1", "FIELD_NOT_FOUND"),
        ("nope = 1", "UNRESOLVED_COLUMN"),
        ("value.count", "DATATYPE_MISMATCH"),
        ("cast(key.k as int) = 1", "CAST_INVALID_INPUT"),
    ],
)
def test_a_wrong_condition_is_explained_by_sparks_reason(
    log: Path, tmp_path: Path, condition: str, reason: str
) -> None:
    for more in ((), ("--export", tmp_path / "x.parquet")):
        result = state(log, "--where", condition, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error USAGE: --where cannot be evaluated:")
        assert reason in result.stderr
        assert "hint: Columns: key.k, key.window, value.count" in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_wrong_operator_is_told_with_the_right_ones(log: Path) -> None:
    result = state(log, "--operator", 4)
    assert result.exit_code == 2
    assert "hint: Operators of this query: 0 (stateStoreSave)." in result.stderr
    assert state(log, "--var", "x").exit_code == 2
    assert state(log, "--store", "left").exit_code == 2


def test_in_a_process_of_its_own_stdout_has_the_result_only(log: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, str(log), "--json", "--limit", "1"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(json.loads(ended.stdout)["rows"]) == 1


def test_in_a_process_of_its_own_a_failing_condition_shows_no_stack(log: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, str(log), "--where", "cast(key.k as int) = 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 2
    assert "CAST_INVALID_INPUT" in ended.stderr


def test_an_export_that_is_terminated_while_spark_writes_leaves_nothing(
    log: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, str(log), "--export", str(tmp_path / "x.parquet")],
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "80"},
        text=True,
    )
    while not list(tmp_path.glob(".x.parquet.*/rows/_temporary")):
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the process ended too early: {process.wait(timeout=0.01)}")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "stopped by SIGTERM" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
