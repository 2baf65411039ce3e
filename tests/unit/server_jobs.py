"""A job for the server's tests: what it knows of one, and a stand-in for one that runs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

from holdfast.protocol.records import FailureRecord
from holdfast.protocol.statistics import CheckpointFigures, RegionFigures, Status, TaskFigures
from holdfast.runtime.commits import Try
from holdfast.runtime.failover import NextRestart
from holdfast.runtime.transactions import Listing
from holdfast.server.view import ChannelView, Failure, JobView, RegionView, Restored
from holdfast.settings import Settings, resolve

JOB_ID = "0123456789abcdef0123456789abcdef"
START = 1_790_000_000.0


def settings(**given: str) -> Settings:
    return resolve(
        arguments={key.replace("__", "."): value for key, value in given.items()},
        environ={},
        file=None,
        code={},
    )


def answer(uid: str, tasks: int = 0) -> RegionFigures:
    return RegionFigures(
        uid=uid,
        cut=4,
        acknowledged=START + 11.5,
        start_delay=0.01,
        alignment=0.2,
        sync=0.03,
        async_=0.4,
        state_size=1001,
        checkpointed_size=101,
        in_flight=11,
        unaligned=False,
        tasks=tuple(TaskFigures(n, 0.1, START + 11) for n in range(tasks)),
    )


def completed(number: int = 1) -> CheckpointFigures:
    return CheckpointFigures(
        id=number,
        triggered=START + 11,
        regions=2,
        cause="PERIODIC",
        full=True,
        unaligned=False,
        status=Status.COMPLETED,
        ended=START + 12,
        acknowledged={"views": answer("views"), "pv": answer("pv", tasks=2)},
        path=f"/chk/chk-{number}",
    )


def failed(number: int = 2) -> CheckpointFigures:
    return replace(
        completed(number),
        status=Status.FAILED,
        acknowledged={"views": answer("views")},
        path=None,
        reason="EXPIRED",
        failure="Checkpoint expired before completing.",
    )


def in_progress(number: int = 3) -> CheckpointFigures:
    return replace(
        completed(number), status=Status.IN_PROGRESS, ended=None, path=None, acknowledged={}
    )


def job_view(state: str = "RUNNING") -> JobView:
    return JobView(
        id=JOB_ID,
        name="page-views",
        state=state,
        entered={"CREATED": START, "RUNNING": START + 2, state: START + 2},
        now=START + 60,
        regions=(
            RegionView("views", ("clicks",), ("raw",), "append", "RUNNING", 1, 5, 1000, 10.0),
            RegionView("pv", ("views",), ("out",), "update", "RUNNING", 2, 4, 500, 5.0, 7, 70),
        ),
        channels=(ChannelView("views", ("pv",), 10, 100),),
        checkpoints=[completed(1), failed(2), in_progress(3)],
        settings=settings(),
    )


def failed_view() -> JobView:
    failure = Failure("RegionFailed", "region 'pv' failed: oh", START + 50, "pv")
    return replace(job_view("FAILED"), failure=failure)


def failure(number: int = 1, region: str | None = "pv") -> FailureRecord:
    """A region that failed ten seconds after its run began, and was restarted."""
    who = "the job" if region is None else f"region {region!r}"
    return FailureRecord(
        number=number,
        at=START + 10 * number,
        region=region,
        kind="Recoverable",
        why="no cause says that a restart cannot help",
        error="java.io.IOException",
        message=f"{who} failed: Query [id = 1] terminated with exception: Job aborted\n"
        "\tat org.apache.spark.Some.method(Some.scala:1)\n"
        "Caused by: java.io.IOException: Connection reset by peer\n",
        decision=f"restart of {region or 'all regions'} from where it stands after 1.0 s",
        scope="individual" if region else "all",
        source="own query logs",
        attempt=number,
        delay=1.0,
        recovered=START + 10 * number + 1.2,
    )


def joined(number: int, root: int, region: str = "views") -> FailureRecord:
    """One that failed while the restart of another was due."""
    return replace(
        failure(number, region),
        decision=f"joins failure {root}",
        attempt=None,
        delay=None,
        merged_into=root,
    )


def fatal(number: int) -> FailureRecord:
    """One that ended the job."""
    return replace(
        failure(number),
        kind="NonRecoverable",
        why="the code of the job raised ValueError",
        decision="the job failed: the failure is not recoverable",
        scope=None,
        source=None,
        attempt=None,
        delay=None,
        recovered=None,
    )


def restarting_view() -> JobView:
    """All regions wait for the second restart, which is due in three seconds."""
    view = job_view("RESTARTING")
    pending = replace(failure(2, None), recovered=None)
    return replace(
        view,
        regions=tuple(replace(region, status="SCHEDULED") for region in view.regions),
        failures=(failure(1), pending),
        next_restart=NextRestart(view.now + 3, 2, pending.why, ()),
    )


def restored_view() -> JobView:
    return replace(job_view(), restored=Restored(7, "/old/chk-7", START))


class StandIn:
    """A job that does what it is told at once."""

    def __init__(self, view: JobView | None = None) -> None:
        self.now = view or job_view()
        self.asked: list[bool] = []
        self.future: Future[int] = Future()
        self.listing = Listing()
        self.hurried: list[str | None] = []
        self.tries: list[Try] = []

    def view(self) -> JobView:
        return self.now

    def checkpoint(self, full: bool) -> Future[int]:
        self.asked.append(full)
        return self.future

    def transactions(self) -> Listing:
        return self.listing

    def commit_now(self, sink: str | None, seconds: float) -> list[Try]:
        self.hurried.append(sink)
        return self.tries

    def cancel(self) -> None:
        if self.now.state == "RUNNING":
            self.now = job_view("CANCELED")
