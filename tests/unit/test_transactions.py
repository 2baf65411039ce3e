"""Whose a transaction is, what may be done with it, and the commands, without Spark."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from holdfast.checkpoints.metadata import CheckpointMetadata, RegionSnapshot, Transaction
from holdfast.checkpoints.store import CheckpointStore
from holdfast.cli import live
from holdfast.cli.app import app
from holdfast.cli.show_jobs import waiting
from holdfast.runtime import fencing
from holdfast.runtime.commits import CommitFigures, Tried, Try
from holdfast.runtime.epochs import OpenTransaction
from holdfast.runtime.fencing import Fence, Fenced, raise_epoch
from holdfast.runtime.history import History
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.transactions import (
    Listing,
    Owner,
    PendingTransaction,
    of_running,
    why_not_abort,
    why_not_commit,
)
from holdfast.runtime.unstaged import Unstaged
from holdfast.runtime.work import WorkDirectory
from holdfast.server.claims import LOCK
from holdfast.server.processes import own_process
from holdfast.server.registry import Registry, Runner, encode
from holdfast.server.serving import serving
from holdfast.server.view import SinkView
from holdfast.storage import open_storage
from tests.compat.samples import NEWEST, unpack
from tests.unit.server_jobs import JOB_ID, StandIn, completed, job_view
from tests.unit.stores import Shelf

SAMPLE = "aggregation.hashmap"
"""A query log with more than two batches."""

SCRIPT = """\
import sys
import holdfast as hf
from holdfast.sinks import WriteAheadSink
from tests.unit.stores import Shelf

class Nowhere(WriteAheadSink):
    def write(self, marker, batches):
        with open(out + "/written", "a") as file:
            print(marker.sink, marker.checkpoint, list(batches), file=file)

out, sinks = sys.argv[1], sys.argv[2].split(",")
kinds = {"a": Shelf(out + "/a"), "b": Shelf(out + "/b"), "ahead": Nowhere()}
job = hf.Job("views", settings={"holdfast.work.dir": out + "/work"})
job.source("clicks", hf.sources.generator(rows=1))
job.region("all", reads="clicks")(lambda rows: rows)
for uid in sinks:
    job.sink(uid, "all", kinds[uid])
"""


def holdfast(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200"})


def said(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    # Loading a script changes these for the rest of its process.
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))


# Decisions

OWNED = PendingTransaction("out", 7, Owner.COMPLETED, "")
UNOWNED = PendingTransaction("out", 8, Owner.NOBODY, "")


def test_what_is_owned_is_committed_and_what_is_not_is_aborted() -> None:
    assert why_not_commit(OWNED, force=False) is None
    assert why_not_abort(UNOWNED, force=False) is None
    assert "twice" in (why_not_commit(UNOWNED, force=False) or "")
    assert "lost" in (why_not_abort(OWNED, force=False) or "")


def test_force_does_the_opposite_where_the_store_can() -> None:
    assert why_not_commit(UNOWNED, force=True) is None
    assert why_not_abort(OWNED, force=True) is None
    kept = replace(OWNED, keeps_rows=True)
    assert "no way to leave them out" in (why_not_abort(kept, force=True) or "")
    droppable = replace(kept, can_be_dropped=True)
    assert why_not_abort(droppable, force=True) is None
    assert "--force counts them as written" in (why_not_abort(droppable, force=False) or "")
    gone = replace(OWNED, has_sink=False)
    assert "put it back" in (why_not_commit(gone, force=True) or "")
    assert "put it back" in (why_not_abort(gone, force=True) or "")


def opened(is_promised: bool = False, has_failed: bool = False) -> OpenTransaction:
    handle = {"checkpoint": 12}
    return OpenTransaction(Transaction("out", 12, 0, 3, handle), is_promised, has_failed, ["p"])


@pytest.mark.parametrize(
    ("found", "figures", "owner", "fate"),
    [
        (opened(), None, Owner.UNDER_WAY, "checkpoint 12, under way"),
        (
            opened(has_failed=True),
            None,
            Owner.NOBODY,
            "nobody, for checkpoint 12 has failed: will be aborted",
        ),
        (
            opened(is_promised=True),
            CommitFigures("out", 12, 1.0),
            Owner.COMPLETED,
            "checkpoint 12, completed: is being committed",
        ),
        (
            opened(is_promised=True),
            CommitFigures("out", 12, 1.0, 9, 3, "refused\n at x"),
            Owner.COMPLETED,
            "checkpoint 12, completed: is being tried (3 failures, last: refused)",
        ),
    ],
)
def test_a_running_job_tells_what_becomes_of_its_open_transactions(
    found: OpenTransaction, figures: CommitFigures | None, owner: Owner, fate: str
) -> None:
    pending = of_running("out", found, figures, 5.0)
    assert (pending.owner, pending.fate, pending.since) == (owner, fate, 5.0)


# A job that does not run


class Left:
    """What a job that was killed has left: checkpoint 1 has completed, checkpoint 2 has not."""

    def __init__(self, root: Path, sinks: str = "a,b") -> None:
        self.root, self.sinks = root, sinks
        self.script = root / "job.py"
        self.script.write_text(SCRIPT)
        self.a, self.b = Shelf(root / "a"), Shelf(root / "b")

    def crash(self, owned: tuple[str, ...] = ("a", "b")) -> WorkDirectory:
        work = WorkDirectory(str(self.root / "work"), "views")
        attempt = work.begin(None)
        for number in (1, 2):
            assert work.next_checkpoint(1) == number
            self.a.prepare(number, [number])
        self.b.prepare(1, [1])
        store = CheckpointStore(str(self.root / "checkpoints" / work.job_id))
        store.begin(1).complete(
            CheckpointMetadata(
                job_id=work.job_id, job_name="views", id=1, kind="checkpoint",
                mode="exactly-once", unaligned=False, full=True, triggered=100.0,
                completed=101.0, attempt=attempt.number, holdfast="0", spark="4.3.0",
                regions=(RegionSnapshot("all", 0, "append", (), {"type": "struct", "fields": []}),),
                transactions=tuple(Transaction(u, 1, 0, 1, {"checkpoint": 1, "job_id": work.job_id})
                                   for u in owned),
            )
        )  # fmt: skip
        return work

    def run(self, *args: object) -> Result:
        """``transactions list job.py …``, with the script's arguments."""
        command, *options = args
        script = ["--", str(self.root), self.sinks]
        return holdfast("transactions", command, self.script, *options, *script)

    def json(self, *args: object) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = json.loads(self.run(*args, "--json").stdout)
        return found

    def places(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Pending and committed of one sink, then of the other."""
        a, b = self.a, self.b
        return (
            a.numbers("pending"), a.numbers("committed"),
            b.numbers("pending"), b.numbers("committed"),
        )  # fmt: skip


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_the_list_says_whose_each_transaction_is_and_changes_nothing(left: Left) -> None:
    work = left.crash()
    before = sorted(os.walk(left.root / "work"))
    found = left.json("list")["transactions"]
    assert [(t["sink"], t["checkpoint"], t["owner"]) for t in found] == [
        ("a", 1, "completed checkpoint"),
        ("a", 2, "nobody"),
        ("b", 1, "completed checkpoint"),
    ]
    assert found[0]["since"] == 100.0
    assert found[1]["since"] == work.given_at(2)
    result = left.run("list")
    assert result.exit_code == 0
    for words in (
        "a, checkpoint 1, since 1970-01-0",
        "checkpoint 1, completed: will be committed at the next start",
        "shelf place 2",
        "nobody: will be aborted at the next start",
    ):
        assert words in result.stdout
    assert sorted(os.walk(left.root / "work")) == before


def test_commit_does_what_is_owned_and_refuses_the_rest_with_the_reason(left: Left) -> None:
    left.crash()
    result = left.run("commit")
    assert result.exit_code == 3
    assert "a, checkpoint 1: committed" in result.stdout
    assert "b, checkpoint 1: committed" in result.stdout
    assert "a, checkpoint 2: refused: no completed checkpoint owns it" in said(result)
    assert left.places() == ([2], [1], [], [1])
    assert left.run("commit", "--checkpoint", 1).exit_code == 0


def test_abort_does_what_nobody_owns_and_refuses_the_rest_with_the_reason(left: Left) -> None:
    left.crash()
    result = left.run("abort")
    assert result.exit_code == 3
    assert "a, checkpoint 2: aborted" in result.stdout
    assert "checkpoint 1 is complete and has promised these rows" in said(result)
    assert left.places() == ([1], [], [1], [])


def test_sink_and_checkpoint_choose_which(left: Left) -> None:
    left.crash()
    assert left.run("commit", "--sink", "b").exit_code == 0
    assert left.places() == ([1, 2], [], [], [1])
    assert left.run("abort", "--checkpoint", "2").exit_code == 0
    assert left.places() == ([1], [], [], [1])
    result = left.run("commit", "--sink", "c")
    assert (result.exit_code, "There are: a, b." in said(result)) == (2, True)


def test_force_needs_a_yes_and_then_does_the_opposite(left: Left) -> None:
    left.crash()
    result = left.run("commit", "--checkpoint", "2", "--force")
    assert (result.exit_code, "--yes" in result.output) == (2, True)
    assert left.places() == ([1, 2], [], [1], [])
    assert left.run("commit", "--checkpoint", "2", "--force", "--yes").exit_code == 0
    assert left.run("abort", "--sink", "b", "--force", "--yes").exit_code == 0
    assert left.places() == ([1], [2], [], [])


def test_a_sink_that_does_not_answer_is_told_of_and_the_others_are_served(left: Left) -> None:
    left.crash()
    (left.root / "a" / "away").touch()
    (left.root / "b" / "down").touch()
    result = left.run("list")
    assert result.exit_code == 4
    assert "could not be asked: the shelf is away" in result.stdout
    assert "b, checkpoint 1" in result.stdout
    result = left.run("commit")
    assert result.exit_code == 4
    assert "b, checkpoint 1: failed: the shelf is down" in result.stdout
    assert "a: failed: the shelf is away" in result.stdout
    (left.root / "b" / "down").unlink()
    assert left.run("commit").exit_code == 4
    assert left.places() == ([1, 2], [], [], [1])


def test_without_anything_pending_there_is_nothing_to_do(left: Left) -> None:
    left.crash()
    left.run("commit")
    left.run("abort")
    for command in ("list", "commit", "abort"):
        result = left.run(command)
        assert (result.exit_code, "Nothing is pending for views" in result.stdout) == (0, True)
    assert left.json("list")["transactions"] == []


def test_a_cancelled_job_says_how_its_promises_can_still_be_kept(left: Left) -> None:
    work = left.crash()
    attempt = work.current()
    assert attempt is not None
    work.end(attempt, "CANCELED")
    text = left.run("list").stdout
    assert "the job is canceled; a start with --from this checkpoint commits it" in text
    assert "nobody: a start with --from or --fresh aborts it" in text
    assert left.run("commit", "--checkpoint", 1).exit_code == 0


def test_a_sink_that_the_job_has_no_more_is_told_of(left: Left) -> None:
    left.crash()
    left.sinks = "a"
    assert "the job has no sink 'b' any more" in left.run("list").stdout
    result = left.run("commit", "--sink", "b")
    assert (result.exit_code, "put it back into the script" in said(result)) == (3, True)
    left.sinks = "a,b"
    assert left.run("commit", "--sink", "b").exit_code == 0
    left.sinks = "a"
    assert "any more" not in left.run("list").stdout


def test_kept_rows_are_pending_until_it_is_noted_that_they_are_out(left: Left) -> None:
    left.sinks = "ahead"
    work = left.crash(owned=("ahead",))
    assert len(left.json("list")["transactions"]) == 1
    attempt = work.current()
    assert attempt is not None
    Settlements(attempt.storage, "ahead").record(1)
    assert left.json("list")["transactions"] == []
    log = Path(attempt.storage.locate("channels/all/log/0"))
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"folder": "0-x", "files": []}))
    (pending,) = left.json("list")["transactions"]
    assert "unless that has happened" in str(pending["fate"])
    refused = left.run("abort")
    assert (refused.exit_code, "--force counts them as written" in said(refused)) == (3, True)
    assert left.run("abort", "--force").exit_code == 2  # there is nobody to ask
    assert not (left.root / "written").exists()
    assert left.run("abort", "--force", "--yes").exit_code == 0
    assert (left.root / "written").read_text() == "ahead 1 []\n"
    work.end(attempt, "FINISHED")
    assert left.json("list")["transactions"] == []


def test_a_batch_that_was_not_staged_owns_its_transaction_if_it_is_done(left: Left) -> None:
    work = left.crash()
    attempt = work.current()
    assert attempt is not None
    channel = open_storage(attempt.storage.locate("channels/all"))
    Unstaged(channel, "a").record(1, {"checkpoint": 2})
    assert [t["owner"] for t in left.json("list")["transactions"]][1] == "nobody"
    log = unpack(f"{NEWEST}/{SAMPLE}", left.root)
    Path(attempt.region("all")).parent.mkdir(parents=True)
    log.rename(attempt.region("all"))
    (pending,) = [t for t in left.json("list")["transactions"] if t["checkpoint"] == 2]
    assert pending["owner"] == "committed batch"
    for command in ("commit", "abort"):
        assert left.run(command, "--checkpoint", 2).exit_code == 3
    assert left.run("commit", "--checkpoint", 2, "--force", "--yes").exit_code == 0
    assert left.places() == ([1], [2], [1], [])


def test_a_start_from_another_checkpoint_owns_what_that_one_has_promised(left: Left) -> None:
    work = left.crash()
    ours = CheckpointStore(str(left.root / "checkpoints" / work.job_id)).completed[1]
    promised = Transaction("a", 2, 0, 1, {"checkpoint": 2})
    store = CheckpointStore(str(left.root / "other"))
    store.begin(2).complete(replace(ours, id=2, transactions=(promised,)))
    path = f"execution.state-recovery.path={store.path_of(2)}"
    owners = {
        (t["sink"], t["checkpoint"]): t["owner"]
        for t in left.json("list", "--set", path)["transactions"]
    }
    assert owners == {
        ("a", 1): "nobody",
        ("a", 2): "completed checkpoint",
        ("b", 1): "nobody",
    }


def test_a_completed_checkpoint_that_is_not_where_the_settings_say_is_not_taken_for_none(
    left: Left,
) -> None:
    work = left.crash()
    history = History(f"{left.root}/history/{work.job_id}")
    history.begin(completed(1))
    history.completed(1, 101.0, "/somewhere/chk-1")
    elsewhere = f"execution.checkpointing.dir={left.root}/elsewhere"
    for command in ("list", "commit", "abort"):
        result = left.run(command, "--set", elsewhere)
        assert (result.exit_code, "/somewhere/chk-1" in said(result)) == (2, True)
    assert left.places() == ([1, 2], [], [1], [])


def test_a_job_that_has_never_run_has_no_transactions_and_gets_no_directory(left: Left) -> None:
    for command in ("list", "commit", "abort"):
        result = left.run(command)
        assert (result.exit_code, "has never run here" in said(result)) == (2, True)
    assert not (left.root / "work").exists()


def test_a_job_that_another_process_has_claimed_is_left_alone(left: Left) -> None:
    work = left.crash()
    runner = Runner(work.job_id, "views", work.location, 1.0, own_process(), url="http://x")
    (Path(work.location) / LOCK).write_bytes(encode(runner))
    for command in ("list", "commit", "abort"):
        result = left.run(command)
        assert (result.exit_code, "its token is not on record here" in said(result)) == (2, True)
    assert left.places() == ([1, 2], [], [1], [])


def test_the_claim_is_given_back(left: Left) -> None:
    left.crash()
    left.run("commit")
    assert Registry().running() == []
    assert (left.root / "work/views" / LOCK).read_bytes() == b""


# A job that another machine may run


@pytest.fixture
def other(left: Left, monkeypatch: pytest.MonkeyPatch) -> Fence:
    """The epoch of a runner on another machine, with the same working directory."""
    work = left.crash()
    with monkeypatch.context() as there:
        there.setattr(fencing, "host", lambda: "elsewhere")
        return raise_epoch(work.storage)


@pytest.mark.parametrize("command", ["commit", "abort"])
def test_a_job_whose_runner_on_another_machine_has_not_left_is_left_alone(
    left: Left, other: Fence, command: str
) -> None:
    result = left.run(command)
    assert result.exit_code == 2
    for words in (
        "a runner on elsewhere has the job since 20",
        f"pid={os.getpid()}",
        "--take-over",
    ):
        assert words in said(result)
    assert left.places() == ([1, 2], [], [1], [])
    other.check()


def test_a_runner_on_another_machine_is_stopped_before_it_is_taken_over_from(
    left: Left, other: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def the_other_notices(seconds: float) -> None:
        with pytest.raises(Fenced):
            other.check()
        seen.append(left.places())
        other.leave()

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=the_other_notices)
    monkeypatch.setattr(fencing, "time", clock)
    assert left.run("abort", "--checkpoint", 2, "--take-over").exit_code == 0
    assert seen == [([1, 2], [], [1], [])]
    assert left.places() == ([1], [], [1], [])


def test_a_job_whose_runner_on_another_machine_has_left_is_settled_and_left(
    left: Left, other: Fence
) -> None:
    other.leave()
    assert left.run("abort", "--checkpoint", 2).exit_code == 0
    assert left.places() == ([1], [], [1], [])
    assert not raise_epoch(other.storage).is_shared


def test_a_runner_that_starts_on_another_machine_meanwhile_stops_the_command(
    left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = left.crash()
    commit = Shelf.recover_and_commit

    def and_another_starts(shelf: Shelf, *given: Any) -> None:
        commit(shelf, *given)
        raise_epoch(work.storage)

    monkeypatch.setattr(Shelf, "recover_and_commit", and_another_starts)
    result = left.run("commit", "--checkpoint", 1)
    assert result.exit_code == 4
    assert "b, checkpoint 1: failed: another runner has taken over" in said(result)
    assert left.places() == ([2], [1], [1], [])


# A job that runs


@pytest.fixture
def job() -> Iterator[StandIn]:
    """A job on record, in this process."""
    made = StandIn(replace(job_view(), sinks=(SinkView("out", 12, time.time() - 14, 5, "no"),)))
    owned = PendingTransaction("out", 12, Owner.COMPLETED, "completed: is being tried", ["p"], 1.0)
    made.listing = Listing([owned])
    with serving({JOB_ID: made}, "127.0.0.1", 0) as address:
        runner = Runner(JOB_ID, "page-views", "/work/page-views", time.time(), own_process())
        Registry().write(replace(runner, url=address.url, token=address.token))
        yield made


def test_a_running_job_lists_what_it_has_open(job: StandIn) -> None:
    found = json.loads(holdfast("transactions", "list", "page-views", "--json").stdout)
    assert found["job"] == {"id": JOB_ID, "name": "page-views", "state": "RUNNING"}
    assert [(t["sink"], t["checkpoint"]) for t in found["transactions"]] == [("out", 12)]
    assert "is being tried" in holdfast("transactions", "list", JOB_ID[:6]).stdout


def test_a_running_job_is_told_to_try_now_and_the_outcome_is_told(job: StandIn) -> None:
    job.tries = [Try("out", 12, Tried.FAILED, "connection refused")]
    result = holdfast("transactions", "commit", "page-views")
    assert result.exit_code == 4
    assert "out, checkpoint 12: failed: connection refused" in result.stdout
    job.tries = [Try("out", 12, Tried.COMMITTED)]
    result = holdfast("transactions", "commit", "page-views", "--sink", "out")
    assert (result.exit_code, result.stdout) == (0, "out, checkpoint 12: committed\n")
    assert job.hurried == [None, "out"]


def test_what_a_running_job_does_not_own_yet_is_left_to_it(job: StandIn) -> None:
    job.listing = Listing([PendingTransaction("out", 13, Owner.UNDER_WAY, "under way")])
    result = holdfast("transactions", "commit", "page-views")
    assert (result.exit_code, "the runner takes care of it" in said(result)) == (3, True)
    job.listing = Listing()
    assert "Nothing is pending" in holdfast("transactions", "commit", "page-views").stdout


def test_a_running_job_aborts_by_itself_and_is_not_forced(job: StandIn) -> None:
    result = holdfast("transactions", "abort", "page-views", "--force", "--yes")
    assert (result.exit_code, "takes care of its transactions" in said(result)) == (2, True)
    result = holdfast("transactions", "commit", "page-views", "--force")
    assert (result.exit_code, "--force" in result.output) == (2, True)
    result = holdfast("transactions", "commit", "page-views", "--sink", "x")
    assert (result.exit_code, "There are: out." in said(result)) == (2, True)
    assert job.hurried == []


def test_wrong_targets_are_refused_with_what_could_be_meant(job: StandIn, tmp_path: Path) -> None:
    result = holdfast("transactions", "list", "page-vews")
    assert (result.exit_code, "give its script: job.py" in said(result)) == (2, True)
    result = holdfast("transactions", "list", tmp_path / "none.py")
    assert (result.exit_code, "no such script" in said(result)) == (2, True)
    result = holdfast("transactions", "list", "page-views", "--set", "a=b")
    assert (result.exit_code, "are for scripts" in said(result)) == (2, True)


def test_info_and_the_live_view_tell_of_a_sink_that_cannot_commit(job: StandIn) -> None:
    line = "out: waiting to commit checkpoint 12 for"
    assert line in holdfast("info", "page-views").stdout
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(live.frame(replace(job.now, now=time.time()), "http://127.0.0.1:1"))
    assert line in console.export_text()
    job.now = job_view()
    assert "waiting to commit" not in holdfast("info", "page-views").stdout


def test_a_line_about_a_sink_says_how_long_how_often_and_why() -> None:
    sink = {"uid": "out", "waiting_for": 12, "since": 100.0, "tries": 5, "error": "refused\nmore"}
    assert waiting(sink, 114.0) == (
        "out: waiting to commit checkpoint 12 for 14.0 s, 5 tries failed: refused"
    )
    assert waiting({**sink, "tries": 0, "error": None}, 101.0) is None
    assert waiting({**sink, "tries": 0, "error": None}, 114.0) == (
        "out: waiting to commit checkpoint 12 for 14.0 s"
    )
    assert waiting({**sink, "waiting_for": None}, 114.0) is None
