"""Commands about running jobs, on a job that is only a stand-in; scripts that do not load."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from holdfast.checkpoints.metadata import (
    CheckpointMetadata,
    InputSnapshot,
    RegionSnapshot,
    SegmentSnapshot,
    StoredFile,
    Transaction,
    encode,
)
from holdfast.cli import live
from holdfast.cli.app import app
from holdfast.cli.causes import essence
from holdfast.cli.follow import News, checkpoint_line
from holdfast.cli.run import _again
from holdfast.cli.show_jobs import partitions_behind
from holdfast.cli.times import duration
from holdfast.errors import StorageError
from holdfast.protocol.lag import PartitionLag
from holdfast.server.processes import own_process
from holdfast.server.registry import Registry, Runner
from holdfast.server.serving import serving
from holdfast.server.view import ChannelView, JobView
from tests.unit.server_jobs import JOB_ID, StandIn, completed, failed, in_progress, job_view


def holdfast(*args: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args], input=text, env={"COLUMNS": "120"})


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    # Loading a script changes these for the rest of its process.
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return tmp_path


@pytest.fixture
def job() -> Iterator[StandIn]:
    """A job on record, in this process."""
    made = StandIn()
    with serving({JOB_ID: made}, "127.0.0.1", 0) as address:
        runner = Runner(JOB_ID, "page-views", "/work/page-views", time.time(), own_process())
        Registry().write(replace(runner, url=address.url, token=address.token))
        yield made


# Finding a job


@pytest.mark.parametrize("name", ["page-views", JOB_ID, JOB_ID[:6]])
def test_a_job_is_found_by_name_id_or_the_beginning_of_its_id(job: StandIn, name: str) -> None:
    result = holdfast("info", name, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["id"] == JOB_ID


def test_an_unknown_job_is_refused_with_a_list_of_those_that_run(job: StandIn) -> None:
    result = holdfast("info", "page-vews")
    assert result.exit_code == 2
    assert f"page-views ({JOB_ID})" in " ".join(result.stderr.split())


def test_without_any_job_the_list_is_empty() -> None:
    assert holdfast("list").stdout == "No job is running here.\n"
    assert json.loads(holdfast("list", "--json").stdout) == []


def test_a_job_that_is_starting_is_listed_with_all() -> None:
    Registry().write(Runner(JOB_ID, "page-views", "/work", 1.0, own_process()))
    assert json.loads(holdfast("list", "--json").stdout) == []
    (entry,) = json.loads(holdfast("list", "--all", "--json").stdout)
    assert entry["state"] == "STARTING"
    assert holdfast("info", "page-views").exit_code == 4


def test_the_list_never_shows_a_token(job: StandIn) -> None:
    token = Registry().running()[0].token
    assert token
    for args in (["list"], ["list", "--json"], ["info", "page-views"]):
        result = holdfast(*args)
        assert "page-views" in result.stdout
        assert token not in result.output


# Looking and asking


def lagging() -> JobView:
    """A job that reads Kafka and is behind."""
    view = job_view()
    lags = (PartitionLag("clicks", 0, 5, 12, 7), PartitionLag("clicks", 1, 8, 2008, 2000))
    return replace(view, regions=(replace(view.regions[0], lag=2007, partitions=lags),))


def test_info_shows_how_far_a_region_is_behind_kafka_and_json_has_every_partition(
    job: StandIn,
) -> None:
    job.now = lagging()
    shown = holdfast("info", "page-views").stdout
    assert "2,007 rows" in shown
    assert "views behind: clicks-1 2,000, clicks-0 7\n" in shown
    (region,) = json.loads(holdfast("info", "page-views", "--json").stdout)["regions"]
    assert region["lag"] == 2007
    first = {"topic": "clicks", "partition": 0, "read": 5, "newest": 12, "behind": 7}
    assert region["partitions"][0] == first


def test_the_live_view_shows_how_far_a_region_is_behind_kafka() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(live.frame(lagging(), "http://127.0.0.1:1"))
    shown = console.export_text()
    assert "2,007 rows" in shown
    assert "views behind: clicks-1 2,000, clicks-0 7\n" in shown


def test_of_many_partitions_the_worst_are_named_and_those_that_are_not_behind_are_not() -> None:
    lags = [PartitionLag("t", number, 0, number, number) for number in range(20)]
    assert partitions_behind("r", lags) == "r behind: t-19 19, t-18 18, t-17 17, t-16 16, " + (
        "15 more of 20"
    )
    assert partitions_behind("r", lags[:2]) == "r behind: t-1 1"
    assert partitions_behind("r", lags[:1]) is None
    assert partitions_behind("r", lags[1:2]) is None, "the table has it"


def test_info_shows_regions_channels_and_checkpoints(job: StandIn) -> None:
    text = holdfast("info", "page-views").stdout
    for word in ("RUNNING", "views", "pv", "1 completed, 1 failed, 1 in progress", "/chk/chk-1"):
        assert word in text


def test_checkpoints_are_a_table_with_the_newest_first(job: StandIn) -> None:
    text = holdfast("checkpoints", "page-views").stdout
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["3", "2", "1"]
    assert "Checkpoint expired before completing." in text
    shown = json.loads(holdfast("checkpoints", "--last", "1", "page-views", "--json").stdout)
    assert [each["id"] for each in shown["checkpoints"]] == [3]


def test_one_checkpoint_is_shown_region_by_region(job: StandIn) -> None:
    text = holdfast("checkpoints", "page-views", "--details", "2").stdout
    assert "1 of 2 have answered" in text
    assert holdfast("checkpoints", "page-views", "--details", "99").exit_code == 2


def test_a_checkpoint_is_taken_and_its_path_printed(job: StandIn) -> None:
    job.future.set_result(1)
    assert holdfast("checkpoint", "page-views").stdout.endswith("/chk/chk-1\n")
    document = json.loads(holdfast("checkpoint", "page-views", "--full", "--json").stdout)
    assert document == {"id": 1, "path": "/chk/chk-1", "full": True}
    assert job.asked == [False, True]


def test_a_checkpoint_that_fails_ends_with_5_and_the_reason(job: StandIn) -> None:
    job.future.set_exception(StorageError("disk full"))
    result = holdfast("checkpoint", "page-views")
    assert (result.exit_code, "disk full" in result.stderr) == (5, True)


def test_a_job_is_cancelled_after_a_yes_only(job: StandIn) -> None:
    result = holdfast("cancel", "page-views")
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)
    assert job.now.state == "RUNNING"
    assert holdfast("cancel", "page-views", "--yes").stdout == "page-views is canceled.\n"


# Checkpoints on disk


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    kind = {"type": "struct", "fields": [{"name": "app", "type": "long"}]}
    stores = {"default": [{"family": "default", "key": kind, "value": kind}]}
    metadata = CheckpointMetadata(
        job_id=JOB_ID, job_name="page-views", id=7, kind="checkpoint", mode="exactly-once",
        unaligned=True, full=False, triggered=1.0, completed=2.5, attempt=1, holdfast="0.1",
        spark="4.3.0", statistics={"cause": "USER"},
        regions=(
            RegionSnapshot(
                uid="pv", cut=4, output_mode="update", schema=kind, backend="rocksdb",
                partitions=2, query_id="q",
                inputs=(
                    InputSnapshot("views", "channel", 3, 5),
                    InputSnapshot("clicks", "source", offset='{"0":17}'),
                ),
                operators=({"id": 0, "name": "x", "kind": "aggregation", "stores": stores},),
                files=(StoredFile("state/0/0/1.zip", 2000, "aa", place="shared/a"),),
            ),
        ),
        in_flight=(SegmentSnapshot("views", 3, (StoredFile("a.parquet", 3000, "bb"),)),),
        transactions=(Transaction("out", 7, 0, 3, {"files": ["a"]}),),
    )  # fmt: skip
    folder = tmp_path / "checkpoints" / JOB_ID / "chk-7"
    folder.mkdir(parents=True)
    (folder / "_metadata").write_bytes(encode(metadata))
    return folder


def test_a_checkpoint_on_disk_is_shown_without_its_job(checkpoint: Path) -> None:
    text = holdfast("checkpoints", "show", checkpoint).stdout
    for word in (
        "7 of page-views",
        "unaligned, incremental, exactly-once",
        "channel views: next segment 3, barrier at 5",
        'source clicks: {"0":17}',
        "rocksdb, 2 partitions",
        "0 aggregation",
        "(app long)",
        "Pending transactions",
        "2 files, 5.0 kB",
    ):
        assert word in text
    assert json.loads(holdfast("checkpoints", "show", checkpoint, "--json").stdout)["id"] == 7


def test_checkpoints_below_a_directory_are_listed(checkpoint: Path) -> None:
    (entry,) = json.loads(
        holdfast("checkpoints", "list", checkpoint.parent.parent, "--json").stdout
    )
    assert entry["path"] == str(checkpoint)
    text = holdfast("checkpoints", "list", checkpoint.parent.parent).stdout
    assert f"{JOB_ID}/chk-7" in text


def test_a_directory_without_metadata_is_no_checkpoint(tmp_path: Path) -> None:
    result = holdfast("checkpoints", "show", tmp_path)
    assert (result.exit_code, "_metadata" in result.stderr) == (4, True)


# Scripts

DECLARED = 'import holdfast as hf\njob = hf.Job("a")\n'


def run_script(folder: Path, text: str, *args: str) -> Result:
    script = folder / "job.py"
    script.write_text(text)
    return holdfast("run", script, *args)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "the script declares no job"),
        (DECLARED + 'other = hf.Job("b")\n', "There are: a, b."),
        (DECLARED + "job.run()\n", '`if __name__ == "__main__":`'),
        ("import sys\nsys.exit(3)\n", "exit(3)"),
        ("def f(:\n", "SyntaxError"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError"),
    ],
)
def test_a_script_without_a_job_to_run_is_refused(tmp_path: Path, text: str, said: str) -> None:
    result = run_script(tmp_path, text)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_script_that_fails_shows_its_own_frames_only(tmp_path: Path) -> None:
    result = run_script(tmp_path, "def f():\n    return 1 / 0\nf()\n")
    assert result.exit_code == 2
    assert "ZeroDivisionError" in result.stderr
    assert result.stderr.count("File ") == 2
    assert "runpy" not in result.stderr


def test_all_that_is_wrong_with_job_and_settings_is_said_at_once(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        DECLARED + 'job.source("s", None)\n',
        *("--mode", "sometimes", "--set", "no.such.key=1", "--checkpoint-interval", "soon"),
    )
    assert result.exit_code == 2
    for word in ("has no region", "'s' is read by no region", "no.such.key", "sometimes", "soon"):
        assert word in result.stderr


def test_a_setting_without_a_value_is_refused(tmp_path: Path) -> None:
    assert run_script(tmp_path, DECLARED, "--set", "key").exit_code == 2


def test_arguments_reach_the_script_and_the_settings_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'found'\n")
    config = tmp_path / "x.toml"
    config.write_text('"no.such.key" = 1\n')
    text = "import sys, beside\nassert sys.argv[1:] == ['--in', 'x'], sys.argv\n" + DECLARED
    result = run_script(tmp_path, text, "--config", str(config), "--", "--in", "x")
    assert str(config) in " ".join(result.stderr.split())
    assert "AssertionError" not in result.stderr


def test_the_command_that_goes_on_is_the_same_without_what_begins_anew() -> None:
    typed = ["holdfast", "run", "j.py", "--fresh", "--from", "x", "--from=y", "--json"]
    assert _again([*typed, "--", "--fresh", "a"]) == "holdfast run j.py --json -- --fresh a"


# What is shown while a job runs, and when it fails

STACKS = """\
region 'views' failed: py4j.Py4JException: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 11, in boom
    return v // (v - 150)
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: java.lang.Exception
\t... 7 more
"""


def test_a_failure_is_told_by_its_innermost_python_error() -> None:
    assert essence(STACKS) == (
        "region 'views' failed: ZeroDivisionError: integer division or modulo by zero\n"
        '  File "job.py", line 11, in boom\n'
        "    return v // (v - 150)"
    )
    assert (
        essence("region 'a' failed: [NO] why\n\tat x.y(Z.scala)\n") == "region 'a' failed: [NO] why"
    )


def shown(width: int = 100) -> str:
    view = job_view()
    full = replace(view, channels=(ChannelView("views", ("pv",), 90, 100),))
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(live.frame(full, "http://127.0.0.1:1"))
    return console.export_text()


def test_the_live_view_has_the_job_its_regions_channels_and_checkpoints() -> None:
    text = shown()
    for word in ("page-views", "RUNNING", "1m 00s", "views → pv", "http://127.0.0.1:1", "✓", "✗"):
        assert word in text
    assert "in progress" in text
    assert all(len(line) <= 80 for line in shown(80).splitlines())


def test_lines_tell_of_each_checkpoint_once_and_of_each_state() -> None:
    view = replace(job_view(), checkpoints=[replace(completed(1), triggered=0.0), in_progress(2)])
    news = News(view)
    assert list(news.since(view)) == [None]
    later = replace(view, checkpoints=[*view.checkpoints[:1], completed(2), failed(3)])
    assert [figures.id for figures in news.since(later) if figures] == [2, 3]
    assert list(news.since(later)) == []
    assert list(news.since(replace(later, state="FINISHED"))) == [None]


def test_a_line_about_a_checkpoint_says_how_long_and_how_much() -> None:
    assert (
        checkpoint_line(completed(4))
        == "checkpoint 4 completed in 1.0 s, wrote 202 bytes of 2.0 kB"
    )
    assert "failed after 1.0 s: Checkpoint expired" in checkpoint_line(failed(4))


def test_durations_are_short() -> None:
    given = (0.035, 4.24, 185, 7800, 100 * 3600)
    assert [duration(s) for s in given] == ["35 ms", "4.2 s", "3m 05s", "2h 10m", "4d 4h"]
