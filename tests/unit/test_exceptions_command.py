"""``holdfast exceptions`` on a running stand-in, a script whose job is dead, and bare files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.app import app
from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.work import WorkDirectory
from holdfast.server.processes import own_process
from holdfast.server.registry import Registry, Restart, Runner
from holdfast.server.serving import serving
from tests.unit.server_jobs import (
    JOB_ID,
    StandIn,
    failure,
    fatal,
    job_view,
    joined,
    restarting_view,
)

SCRIPT = """
import sys

import holdfast as hf

job = hf.Job("counts", settings={"holdfast.work.dir": sys.argv[1]})
job.source("in", hf.sources.generator(rows=1))


@job.region("pv", reads="in")
def pv(rows):
    return rows


job.sink("out", pv, hf.sinks.console())
"""


def holdfast(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "160"})


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    # Loading a script changes these for the rest of its process.
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))


@pytest.fixture
def job() -> Iterator[StandIn]:
    """A job on record, in this process."""
    made = StandIn()
    with serving({JOB_ID: made}, "127.0.0.1", 0) as address:
        runner = Runner(JOB_ID, "page-views", "/work/page-views", time.time(), own_process())
        Registry().write(replace(runner, url=address.url, token=address.token))
        yield made


def keep(history: Path, *failures: FailureRecord) -> Path:
    log = FailureLog(str(history))
    for each in failures:
        log.add(replace(each, recovered=None))
        if each.recovered is not None:
            log.recovered(each.number, each.recovered)
    return history


# A job that runs


def test_failures_of_a_running_job_are_a_table_newest_first(job: StandIn) -> None:
    job.now = replace(job_view(), failures=(failure(1), joined(2, root=1), fatal(3)))
    lines = holdfast("exceptions", "page-views").stdout.splitlines()[1:]
    assert lines[0].split() == [
        "id", "when", "region", "class", "error", "decision", "after",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:]] == ["3", "2", "1"]
    assert "Recoverable" in lines[4]
    assert "IOException: Connection reset by peer" in lines[4]
    assert "restart of pv from where it stands after 1.0 s" in lines[4]
    assert lines[4].endswith("1.2 s")
    assert "joins failure 1" in lines[3]
    assert "the job failed: the failure is not recoverable" in lines[2]


def test_a_narrow_terminal_shows_class_and_duration_whole(job: StandIn) -> None:
    job.now = replace(job_view(), failures=(failure(1), fatal(2)))
    args, env = ["exceptions", "page-views"], {"COLUMNS": "80"}
    lines = CliRunner().invoke(app, args, env=env).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any("NonRecoverable" in line for line in lines)
    assert any(line.endswith(" 1.2 s") for line in lines)


def test_older_failures_that_are_left_out_are_told_of(job: StandIn) -> None:
    job.now = replace(job_view(), failures=tuple(failure(n) for n in range(1, 13)))
    assert "2 older ones: --last 12 shows all." in holdfast("exceptions", "page-views").stdout
    text = holdfast("exceptions", "page-views", "--last", 12).stdout
    assert "older" not in text
    shown = json.loads(holdfast("exceptions", "page-views", "--last", 1, "--json").stdout)
    assert [each["number"] for each in shown["failures"]] == [12]
    assert shown["total"] == 12


def test_a_restart_that_is_due_stands_below(job: StandIn) -> None:
    job.now = restarting_view()
    assert "Next: restart 2 of all regions now: no cause" in (
        words(holdfast("exceptions", "page-views").stdout)
    )
    assert json.loads(holdfast("list", "--json").stdout)[0]["state"] == "RESTARTING"
    info = words(holdfast("info", "page-views").stdout)
    assert "RESTARTING" in info
    assert "next restart restart 2 of all regions now" in info
    assert "failures 2, 2 restarts in this run" in info


def test_one_failure_has_everything_and_its_whole_message(job: StandIn) -> None:
    job.now = replace(job_view(), failures=(failure(1), joined(2, root=1)))
    text = words(holdfast("exceptions", "page-views", "--details", 1).stdout)
    for said in (
        "class Recoverable: no cause says that a restart cannot help",
        "error java.io.IOException",
        "scope individual",
        "from own query logs",
        "restart number 1, after 1.0 s",
        "after 1.2 s",
        "at org.apache.spark.Some.method(Some.scala:1)",
        "Caused by: java.io.IOException: Connection reset by peer",
    ):
        assert said in text
    assert "joins failure 1" in words(holdfast("exceptions", "page-views", "--details", 2).stdout)
    one = json.loads(holdfast("exceptions", "page-views", "--details", 1, "--json").stdout)
    assert one["message"] == failure(1).message


def test_a_failure_that_is_on_no_record_is_refused(job: StandIn) -> None:
    result = holdfast("exceptions", "page-views", "--details", 1)
    assert (result.exit_code, "There is none at all." in result.stderr) == (2, True)
    job.now = replace(job_view(), failures=(failure(3),))
    result = holdfast("exceptions", "page-views", "--details", 9)
    assert (result.exit_code, "The newest is 3." in result.stderr) == (2, True)


def test_without_failures_that_is_what_is_said(job: StandIn) -> None:
    said = "Nothing has failed: there is no failure of page-views on record.\n"
    assert holdfast("exceptions", "page-views").stdout == said
    assert json.loads(holdfast("exceptions", "page-views", "--json").stdout)["failures"] == []


def restarting(history: str | None) -> None:
    runner = Runner(JOB_ID, "page-views", "/work/page-views", time.time(), own_process())
    due = Restart(time.time() + 5, 1, "it was killed")
    Registry().write(replace(runner, restart=due, history=history))


def test_while_its_process_is_dead_the_files_are_read(tmp_path: Path) -> None:
    restarting(str(keep(tmp_path / "history" / JOB_ID, failure(1))))
    found = json.loads(holdfast("exceptions", "page-views", "--json").stdout)
    assert found["job"] == {"id": JOB_ID, "name": "page-views", "state": "RESTARTING"}
    assert [each["number"] for each in found["failures"]] == [1]


@pytest.mark.parametrize("history", [None, "hdfs://somewhere/history"])
def test_while_its_process_is_dead_files_that_need_spark_are_not_read(history: str | None) -> None:
    restarting(history)
    result = holdfast("exceptions", "page-views")
    assert result.exit_code == 4
    assert "Try again when it has been restarted" in words(result.stderr)


# A job that does not


def of_script(tmp_path: Path, *args: object) -> Result:
    script = tmp_path / "counts.py"
    script.write_text(SCRIPT)
    return holdfast("exceptions", script, *args, "--", tmp_path / "work")


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_failures_of_a_dead_job_are_read_where_its_script_says(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path / "work"), "counts")
    keep(tmp_path / "history" / work.job_id, failure(1), fatal(2))
    found = document(of_script(tmp_path, "--json"))
    assert found["job"] == {"id": work.job_id, "name": "counts", "state": "STOPPED"}
    assert [each["number"] for each in found["failures"]] == [2, 1]
    assert found["failures"][1]["duration"] == pytest.approx(1.2)
    other = of_script(tmp_path, "--set", f"holdfast.history.dir={tmp_path}/none", "--json")
    assert document(other)["failures"] == []


def test_looking_writes_nothing(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path / "work"), "counts")
    of_script(tmp_path)
    assert not (tmp_path / "history").exists()
    assert [path.name for path in (tmp_path / "work" / "counts").iterdir()] == ["job"]
    assert work.current() is None


def test_the_state_in_which_a_job_ended_for_good_is_told(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path / "work"), "counts")
    work.end(work.begin(None), "CANCELED")
    assert document(of_script(tmp_path, "--json"))["job"]["state"] == "CANCELED"


def test_a_job_that_never_ran_is_refused_and_gets_no_directory(tmp_path: Path) -> None:
    result = of_script(tmp_path)
    assert result.exit_code == 2
    assert "the job has never run here" in words(result.stderr)
    assert not (tmp_path / "work").exists()


def test_a_script_whose_job_runs_asks_the_job(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path / "work"), "counts")
    made = StandIn(replace(job_view(), failures=(failure(7),)))
    with serving({work.job_id: made}, "127.0.0.1", 0) as address:
        runner = Runner(work.job_id, "counts", work.location, time.time(), own_process())
        Registry().write(replace(runner, url=address.url, token=address.token))
        found = document(of_script(tmp_path, "--json"))
    assert [each["number"] for each in found["failures"]] == [7]


# A directory


def test_a_history_directory_is_enough(tmp_path: Path) -> None:
    history = keep(tmp_path / "history" / JOB_ID, failure(1))
    found = document(holdfast("exceptions", f"{history}/", "--json"))
    assert found["job"] == {"id": JOB_ID, "name": None, "state": None}
    assert [each["number"] for each in found["failures"]] == [1]
    assert "Connection reset" in holdfast("exceptions", history, "--details", 1).stdout


def test_a_history_without_failures_says_so(tmp_path: Path) -> None:
    (tmp_path / JOB_ID).mkdir()
    (tmp_path / JOB_ID / "1.json").write_text("{}")
    result = holdfast("exceptions", tmp_path / JOB_ID)
    assert f"Nothing has failed: there is no failure of {JOB_ID} on record." in result.stdout


def test_a_directory_of_several_jobs_or_of_nothing_is_refused(tmp_path: Path) -> None:
    keep(tmp_path / "history" / JOB_ID, failure(1))
    result = holdfast("exceptions", tmp_path / "history")
    assert result.exit_code == 2
    assert f"{tmp_path}/history/{JOB_ID}" in result.stderr
    result = holdfast("exceptions", tmp_path / "nowhere")
    assert (result.exit_code, "There is nothing here." in result.stderr) == (2, True)
    result = holdfast("exceptions", tmp_path / "history" / JOB_ID, "--set", "a=b")
    assert (result.exit_code, "are for scripts" in result.stderr) == (2, True)


def test_the_help_teaches_classes_and_ways_to_ask() -> None:
    text = CliRunner().invoke(app, ["exceptions", "--help"], env={"COLUMNS": "80"}).stdout
    for word in ("NonRecoverable", "PartitionDataMissing", "Environment", "decision", "history/"):
        assert word in text
    assert text.count("  holdfast exceptions ") == 4
    assert all(len(line) <= 80 for line in text.splitlines())
