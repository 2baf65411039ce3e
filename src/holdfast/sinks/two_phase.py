"""What users subclass to write rows to a store with transactions, exactly once.

Rows of an epoch (all batches between two checkpoints) are staged by Spark. At the barrier they are
given to executors in **parts**; each part is one transaction:

    executor   begin → invoke, invoke, … → pre_commit → close        (one task, one object)
    driver     commit                                                 the checkpoint is complete
    driver     recover_and_commit                                     … and then there was a crash
    anywhere   abort                                                  the checkpoint has failed

Rules:

1. **Objects.** The sink is pickled to executors. Every task gets an object of its own, and calls
   it from one thread. Connections are opened in ``begin`` (or ``commit`` …) and ended in ``close``;
   they must not be there when the object is pickled. Nothing but the handle goes from a task to the
   driver.
2. **Handle.** ``begin`` returns a dictionary of JSON values that is enough to commit or abort the
   transaction from another process on another machine. Its name is unique: build it from
   ``part.name``. Two tries of one part have two names, so a task that finished and was not needed
   (speculation, lost executor) can be told from the one that counts.
3. **pre_commit.** When it returns, the rows are durable and not visible, and ``commit`` can succeed
   whatever dies: task, executor, driver, and the store's own server.
4. **commit** is tried until it succeeds. It must do nothing for a transaction that is committed
   already: a crash may have come between the commit and the note of it. ``recover_and_commit`` is
   the same after a restart; override it if you can tell more there.
5. **abort** is called in the task that failed, or later anywhere, any number of times; for a
   transaction that the store does not know there is nothing to do. Never after ``commit``.
6. **pending** lists what the store still holds of this job and sink, so that transactions of tasks
   and processes that died before anybody knew their handle can be found and aborted. A store that
   forgets by itself what was not pre-committed when its connection ends need list only the rest.
7. **One epoch at a time.** ``begin`` is not called for an epoch before all transactions of the one
   before are committed or aborted. With a ``key``, rows of one key are in one part, and of several
   rows of an epoch with the same key only the newest is given to it. So no two open transactions
   touch the same row.
8. **A failure** in begin, invoke or pre_commit aborts the checkpoint, not the data: the same rows
   come again with the next one. A failure in commit does not fail the job; it is shown and tried
   again.

What is true after a crash between two calls:

    begin … pre_commit   ``pending`` finds the transaction or the store has dropped it; aborted
    pre_commit … stored  as above: no completed checkpoint owns it; aborted
    stored … commit      the checkpoint has the handle; recover_and_commit
    commit … noted       recover_and_commit again, which does nothing
    commit … commit      of two parts: each is committed by itself

``holdfast.testing.sinks`` has a suite of tests that checks all of this for a sink of yours.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.sinks.interface import Handle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows a transaction is about."""

    job_id: str
    sink: str
    checkpoint: int
    number: int
    """Of the task."""
    token: str
    """Differs between two tries of the same part."""

    @property
    def name(self) -> str:
        """For the transaction; the same is never used twice. Without blanks or quotes."""
        return f"{prefix(self.job_id, self.sink)}{self.checkpoint}_{self.number}_{self.token}"


def prefix(job_id: str, sink: str) -> str:
    """How the names of all parts of a sink begin."""
    return f"holdfast_{job_id}_{sink}_"


def checkpoint_of(name: str, job_id: str, sink: str) -> int | None:
    """The checkpoint in the name of a part; ``None`` if it is of another sink."""
    begin = prefix(job_id, sink)
    if not name.startswith(begin):
        return None
    checkpoint, *others = name.removeprefix(begin).split("_")
    return int(checkpoint) if checkpoint.isdigit() and len(others) == 2 else None


class TwoPhaseCommitSink(ABC):
    """A store with transactions that can be prepared. See the rules above."""

    key: Sequence[str] = ()
    """Columns of which a row has one value for ever: rows are given out by them."""

    parallelism: int | None = None
    """How many parts an epoch has at most; as many as tasks can run at once, if not given."""

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: B027
        """On the driver, before the first row: raise ``UsageError`` if it cannot work."""

    @abstractmethod
    def begin(self, part: Part) -> Handle:
        """In a task: open a transaction. Not called for a part without rows."""

    @abstractmethod
    def invoke(self, handle: Handle, rows: pa.RecordBatch) -> None:
        """In a task: write rows."""

    @abstractmethod
    def pre_commit(self, handle: Handle) -> None:
        """In a task: make sure that the rows can be committed, whatever happens."""

    @abstractmethod
    def commit(self, handle: Handle) -> None:
        """Make the rows visible."""

    def recover_and_commit(self, handle: Handle) -> None:
        """Commit after a restart, when it is not known whether that has happened."""
        self.commit(handle)

    @abstractmethod
    def abort(self, handle: Handle) -> None:
        """Forget the rows."""

    @abstractmethod
    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """What the store holds of this job and sink; see ``checkpoint_of`` and rule 6.

        Handles as from ``begin``, each with its ``checkpoint``.
        """

    def describe(self, handle: Handle) -> str:
        """One line for a person: what is it, where? Without asking the store.

        Of a job that runs this is called while another thread writes or commits.
        """
        return json.dumps(dict(handle), default=str)

    def inquire(self, handle: Handle) -> str:
        """The same of a job that does not run, with what the store can add."""
        return self.describe(handle)

    def close(self) -> None:  # noqa: B027
        """End connections. The object may be used again."""
