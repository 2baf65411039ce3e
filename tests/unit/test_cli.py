"""The command line on small hand-made query logs, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holdfast import __version__, querylog
from holdfast.cli.app import app
from holdfast.cli.columns import distinct_names
from holdfast.querylog.batches import (
    Commit,
    Offsets,
    commit_path,
    encode_commit,
    encode_metadata,
    encode_offsets,
    offsets_path,
)

QUERY_ID = "3f1c2b1e-0000-4000-8000-000000000001"


def make_log(root: Path, committed: int = 3, unfinished: int = 0) -> Path:
    """A stateless query on a Kafka-like source."""
    log = root / "log"
    files = {"metadata": encode_metadata(QUERY_ID)}
    for batch in range(committed + unfinished):
        offset = json.dumps({"orders": {"0": 10 * (batch + 1)}})
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
        files[offsets_path(batch)] = encode_offsets(Offsets(1, metadata, {"0": offset}))
    for batch in range(committed):
        watermark = {"nextBatchWatermarkMs": 1_767_222_087_000}
        files[commit_path(batch)] = encode_commit(Commit(1, watermark))
    for path, data in files.items():
        (log / path).parent.mkdir(parents=True, exist_ok=True)
        (log / path).write_bytes(data)
    return log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return make_log(tmp_path)


def holdfast(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "80"})


def words(text: str) -> str:
    """The text however it was folded."""
    return " ".join(text.split())


def error_of(result: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stderr)
    error: dict[str, Any] = document["error"]
    return error


def test_help_teaches_the_word_the_commands_and_the_exit_codes() -> None:
    text = holdfast("--help").stdout
    assert "query log" in text
    assert text.count("  holdfast log ") == 3
    for code in ("0", "1", "2", "3", "4", "70", "130"):
        assert any(line.split()[:1] == [code] for line in text.splitlines())
    assert "--install-completion" in text


@pytest.mark.parametrize("command", ["inspect", "verify", "copy", "state"])
def test_each_command_has_an_example_and_help_for_each_option(command: str) -> None:
    text = holdfast("log", command, "--help").stdout
    assert f"holdfast log {command} /data/" in text
    assert "Print one JSON document" in text


def test_no_line_of_help_is_wider_than_the_terminal() -> None:
    for args in ([], ["log"], ["log", "copy"], ["log", "state"], ["demo"]):
        assert all(len(line) <= 80 for line in holdfast(*args, "--help").stdout.splitlines())


def test_version_is_printed() -> None:
    assert holdfast("--version").stdout == f"holdfast {__version__}\n"


def test_help_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from holdfast.cli.app import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(sorted({'pyspark', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_inspect_shows_batches_sources_and_watermark(tmp_path: Path) -> None:
    log = make_log(tmp_path, committed=3, unfinished=1)
    result = holdfast("log", "inspect", log)
    assert result.exit_code == 0
    text = words(result.stdout)
    assert QUERY_ID in text
    assert "committed 0-2" in text
    assert "unfinished 3 (planned, not committed" in text
    assert 'end of batch 2 {"orders":{"0":30}}' in text
    assert 'planned by batch 3 {"orders":{"0":40}}' in text
    assert "2025-12-31 23:01:27.000 UTC" in text
    assert "a query may be running" in text


def test_inspect_as_json_has_the_keys_of_the_report(log: Path) -> None:
    document = json.loads(holdfast("log", "inspect", log, "--json").stdout)
    assert list(document) == [field.name for field in fields(querylog.Inspection)]
    assert document["restorable"] == [0, 1, 2]
    assert set(document["activity"]) == {"running", "maybe_running", "reason", "advice"}


def test_inspect_says_why_a_batch_cannot_be_restored(log: Path) -> None:
    (log / "offsets" / "1").unlink()
    text = words(holdfast("log", "inspect", log).stdout)
    assert "restorable 0" in text
    assert "Batches that cannot be restored" in text
    assert "offsets/1" in text.replace(" ", "")


def test_verify_of_a_sound_log_ends_with_0(log: Path) -> None:
    result = holdfast("log", "verify", log)
    assert result.exit_code == 0
    assert "Batch 2: 4 files" in result.stdout
    assert "no problems" in result.stdout


def test_verify_of_a_damaged_log_ends_with_1_and_names_the_file(log: Path) -> None:
    (log / "offsets" / "2").write_text("nonsense")
    result = holdfast("log", "verify", log)
    assert result.exit_code == 1
    assert str(log / "offsets" / "2") in result.stdout
    assert "1 problem" in result.stdout
    document = json.loads(holdfast("log", "verify", log, "--json").stdout)
    assert document["ok"] is False
    assert document["problems"][0]["path"] == str(log / "offsets" / "2")


def test_copy_says_what_it_did_and_what_comes_next(log: Path, tmp_path: Path) -> None:
    destination = tmp_path / "copy"
    result = holdfast("log", "copy", log, destination)
    assert result.exit_code == 0
    assert querylog.inspect(destination).committed == (2,)
    assert f'.option("checkpointLocation", "{destination}")' in result.stdout
    assert "processed again" not in result.stdout


def test_copy_warns_that_a_query_may_be_running(log: Path, tmp_path: Path) -> None:
    result = holdfast("log", "copy", log, tmp_path / "copy")
    assert "warning: a query may be running" in words(result.stderr)
    assert "Never start a second query on this directory" in words(result.stderr)


def test_copy_of_an_older_batch_tells_what_is_processed_again(log: Path, tmp_path: Path) -> None:
    text = words(holdfast("log", "copy", log, tmp_path / "copy", "--batch", 0).stdout)
    assert "Batches 1-2 are not in the copy: rows read since batch 0 are processed again." in text
    assert "skips ids it has seen" in text


def test_copy_tells_that_the_plan_of_the_unfinished_batch_came_along(tmp_path: Path) -> None:
    log = make_log(tmp_path, committed=3, unfinished=1)
    text = words(holdfast("log", "copy", log, tmp_path / "copy").stdout)
    assert "Batch 3 was planned and not finished. Its plan came along" in text
    assert "not in the copy" not in text


def test_copy_with_new_id_as_json(log: Path, tmp_path: Path) -> None:
    destination = tmp_path / "copy"
    result = holdfast("log", "copy", log, destination, "--new-id", "--link", "--json")
    document = json.loads(result.stdout)
    assert list(document) == [field.name for field in fields(querylog.CopyReport)]
    assert document["linked"] is True
    assert document["query_id"] == querylog.inspect(destination).query_id != QUERY_ID


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["inspect", "{tmp}/none"], 3, "NOT_A_QUERY_LOG"),
        (["copy", "{log}", "{log}"], 2, "DESTINATION_EXISTS"),
        (["copy", "{log}", "{log}/inside"], 2, "USAGE"),
        (["copy", "{log}", "{tmp}/copy", "--batch", "9"], 3, "NOT_RESTORABLE"),
        (["state", "{log}"], 2, "USAGE"),
        (["state", "{log}", "--batch", "9"], 3, "NOT_RESTORABLE"),
        (["state", "{log}", "--export", "{log}/metadata"], 2, "DESTINATION_EXISTS"),
        (["state", "{log}", "--export", "{tmp}/none/x.parquet"], 2, "USAGE"),
        (["state", "{log}", "--export", "s3://bucket/x.parquet"], 2, "USAGE"),
    ],
)
def test_refusals_have_a_code_and_an_exit_code_and_leave_nothing(
    log: Path, tmp_path: Path, args: list[str], code: int, said: str
) -> None:
    given = [arg.format(log=log, tmp=tmp_path) for arg in args]
    before = sorted(tmp_path.rglob("*"))
    result = holdfast("log", *given)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"error {said}: ")
    as_json = holdfast("log", *given, "--json")
    assert (as_json.exit_code, as_json.stdout) == (code, "")
    assert error_of(as_json)["code"] == said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "args",
    [["copy"], ["inspect", "x", "--nope"], ["verify", "x", "--batch", "-1"], ["nope"]],
)
def test_wrong_use_of_the_command_line_ends_with_2(args: list[str]) -> None:
    result = holdfast("log", *args)
    assert result.exit_code == 2
    assert "Usage: holdfast log" in result.stderr


def test_a_failing_disk_ends_with_4(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = holdfast("log", "copy", log, tmp_path / "file" / "copy")
    assert result.exit_code == 4
    assert result.stderr.startswith("error STORAGE: ")


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["count", "max"], ["count", "max"]),
        (["max", "max", "max"], ["max", "max_2", "max_3"]),
        (["max", "MAX"], ["max", "MAX_2"]),
        (["max", "max", "max_2"], ["max", "max_3", "max_2"]),
    ],
)
def test_fields_of_one_name_are_told_apart(names: list[str], distinct: list[str]) -> None:
    assert distinct_names(names) == distinct
