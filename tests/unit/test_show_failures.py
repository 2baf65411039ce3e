"""Failures and restarts as a terminal, a log file and a program are told of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli import follow, live, show_failures
from holdfast.cli.show_failures import FailureNews, Happened
from holdfast.runtime.failover import NextRestart
from holdfast.server.shapes import own
from holdfast.server.view import JobView
from tests.unit.server_jobs import (
    JOB_ID,
    START,
    failure,
    fatal,
    job_view,
    joined,
    restarting_view,
)

URL = "http://127.0.0.1:1"


def drawn(view: JobView, width: int = 100) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(live.frame(view, URL))
    return console.export_text()


# In a line


def test_an_error_in_brief_is_its_own_line_of_the_message() -> None:
    assert show_failures.brief(own.failure(failure())) == "IOException: Connection reset by peer"
    unnamed = replace(failure(), error="KeyError")
    assert show_failures.brief(own.failure(unnamed)) == (
        "Query [id = 1] terminated with exception: Job aborted"
    )
    long = replace(failure(), message="x" * 500)
    assert len(show_failures.brief(own.failure(long))) == 100
    assert show_failures.brief(own.failure(replace(failure(), message=""))) == "IOException"


def test_a_line_says_what_failed_and_what_came_of_it() -> None:
    failed = "region pv failed (Recoverable: IOException: Connection reset by peer)"
    recovered = own.failure(failure())
    assert show_failures.failure_line(recovered) == f"{failed}, restarted after 1.2 s"
    waiting = own.failure(replace(failure(), recovered=None))
    assert show_failures.failure_line(waiting) == (
        f"{failed}: restart of pv from where it stands after 1.0 s"
    )
    of_job = own.failure(failure(1, None))
    assert show_failures.failure_line(of_job).startswith("the job failed (Recoverable: ")


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    record = replace(failure(), recovered=START - 100)
    assert show_failures.took(own.failure(record)) == "0 ms"


@pytest.mark.parametrize(
    ("at", "regions", "said"),
    [
        (3.2, (), "restart 2 of all regions in 3.2 s: because"),
        (0.5, ("pv", "views"), "restart 2 of pv, views in 500 ms: because"),
        (-4.0, ("pv",), "restart 2 of pv now: because"),
    ],
)
def test_the_next_restart_has_a_countdown_that_ends_at_now(
    at: float, regions: tuple[str, ...], said: str
) -> None:
    due = {"at": START + at, "attempt": 2, "why": "because", "regions": regions}
    assert show_failures.next_restart(due, START) == said


def test_info_tells_the_next_restart_the_failures_and_the_last_of_them() -> None:
    view = restarting_view()
    facts = show_failures.facts(own.job(view), view.now)
    assert facts["next restart"].startswith("restart 2 of all regions in 3.0 s: ")
    assert facts["failures"] == "2, 2 restarts in this run"
    assert "the job failed (Recoverable: " in facts["last failure"]
    assert show_failures.facts(own.job(job_view()), 0.0) == {
        "next restart": "",
        "failures": "none",
        "last failure": "",
    }


# The live view


def test_the_live_view_counts_down_and_says_why_and_who_waits() -> None:
    text = drawn(restarting_view())
    assert "RESTARTING" in text
    assert "restart 2 of all regions in 3.0 s: no cause says that a restart cannot help" in text
    assert text.count("waits for its restart") == 2
    assert "Ctrl-C stops" in text


def test_one_region_that_waits_is_shown_among_those_that_run() -> None:
    view = job_view()
    views, pv = view.regions
    waiting = replace(
        view,
        regions=(views, replace(pv, status="SCHEDULED")),
        failures=(replace(failure(1), recovered=None),),
        next_restart=NextRestart(view.now + 1, 1, "why", ("pv",)),
    )
    text = drawn(waiting)
    assert "RUNNING" in text
    assert "pv waits for its restart" in text
    assert "views waits" not in text
    assert "restart 1 of pv in 1.0 s: why" in text


def test_the_newest_failure_of_this_run_stays_in_view() -> None:
    earlier = replace(failure(1), at=START - 50)
    assert "failed" not in drawn(replace(job_view(), failures=(earlier,), checkpoints=[]))
    text = drawn(replace(job_view(), failures=(failure(2), joined(3, root=2))))
    assert "region pv failed (Recoverable: IOException: Connection reset by peer), restarted " in (
        text
    )
    assert "region views failed" not in text
    assert all(len(line) <= 80 for line in drawn(restarting_view(), 80).splitlines())


# News


def happened(news: FailureNews, view: JobView) -> list[tuple[str, int]]:
    return [(each.event, each.record.number) for each in news.since(view)]


def test_each_failure_is_news_once_and_its_recovery_once() -> None:
    earlier = replace(failure(1), at=START - 50)
    view = replace(job_view(), failures=(earlier,))
    news = FailureNews(view)
    assert happened(news, view) == []
    pending = replace(failure(2), recovered=None)
    failed = replace(view, failures=(earlier, pending))
    assert happened(news, failed) == [("failure", 2)]
    assert happened(news, failed) == []
    recovered = replace(view, failures=(earlier, failure(2), failure(3)))
    assert happened(news, recovered) == [("recovered", 2), ("failure", 3), ("recovered", 3)]
    assert happened(news, recovered) == []


def test_a_failure_of_the_run_itself_is_news_at_the_first_look() -> None:
    view = replace(job_view(), failures=(fatal(1),))
    assert happened(FailureNews(view), view) == [("failure", 1)]


def test_the_recovery_from_what_ended_an_earlier_run_is_news() -> None:
    ended = replace(failure(1), at=START - 5, recovered=None)
    news = FailureNews(replace(job_view(), failures=(ended,)))
    back = replace(ended, recovered=START + 3)
    assert happened(news, replace(job_view(), failures=(back,))) == [("recovered", 1)]


# Lines and documents


def told(tell: follow.Tell, view: JobView, *news: Happened | None) -> None:
    for each in news:
        tell(view, each)


def test_a_log_has_a_line_when_something_fails_and_one_when_all_runs_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view, pending = job_view(), replace(failure(1), recovered=None)
    tell = follow.line(URL)
    told(tell, view, Happened("failure", pending), Happened("recovered", failure(1)))
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(": restart of pv from where it stands after 1.0 s")
    assert second == (
        "region pv failed (Recoverable: IOException: Connection reset by peer), "
        "restarted after 1.2 s"
    )


def test_what_was_over_before_it_could_be_told_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = replace(job_view(), failures=(failure(1),))
    told(follow.line(URL), view, *FailureNews(job_view()).since(view))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("restarted after 1.2 s")


def test_the_line_about_a_job_that_restarts_says_when_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told(follow.line(URL), restarting_view(), None)
    assert capsys.readouterr().err == (
        "job page-views restarting, restart 2 of all regions in 3.0 s: "
        "no cause says that a restart cannot help\n"
    )


def test_programs_get_an_object_for_each_failure_and_each_recovery(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = replace(job_view(), failures=(failure(1),))
    told(follow.document(URL), view, *FailureNews(job_view()).since(view))
    found: list[dict[str, Any]] = [json.loads(s) for s in capsys.readouterr().out.splitlines()]
    failed, recovered = found
    assert failed == {
        "event": "failure",
        "job": JOB_ID,
        **failure(1).to_dict(),
        "duration": pytest.approx(1.2),
    }
    assert recovered == {
        "event": "recovered",
        "job": JOB_ID,
        "number": 1,
        "region": "pv",
        "at": START + 11.2,
        "duration": pytest.approx(1.2),
    }
