"""Pending transactions as people see and settle them: whose each is, and what may be done with it.

A transaction is **owned** by the checkpoint that has promised its rows: nobody will read these
again, so it must be committed. One that nobody owns must be aborted: its rows come again. Where
rows are not staged, the batch that wrote them owns it until a checkpoint does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.runtime.commits import CommitFigures
from holdfast.runtime.epochs import OpenTransaction
from holdfast.sinks import Handle


class Owner(Enum):
    """Whose a transaction is."""

    COMPLETED = "completed checkpoint"
    """Promised: it will be committed."""
    UNDER_WAY = "checkpoint under way"
    """Of a running job: committed if the checkpoint completes, else aborted."""
    BATCH = "committed batch"
    """Its rows were not staged and are nowhere else: the next checkpoint takes it over."""
    NOBODY = "nobody"
    """It will be aborted."""


@dataclass(frozen=True, slots=True)
class PendingTransaction:
    """What a sink has pre-committed or begun, and neither committed nor aborted."""

    sink: str
    checkpoint: int
    owner: Owner
    fate: str
    """What will become of it, in words."""
    parts: Sequence[str] = ()
    """In the sink's words."""
    since: float | None = None
    failures: int = 0
    error: str | None = None
    """Why the last try to commit it failed."""
    handle: Handle = field(default_factory=dict)
    keeps_rows: bool = False
    """The rows are in the job's working directory, and the store has nothing yet."""
    can_be_dropped: bool = False
    """If so: the store can be told to count them as written."""
    has_sink: bool = True
    """Whether the job still has the sink."""

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "sink": self.sink,
            "checkpoint": self.checkpoint,
            "owner": self.owner.value,
            "fate": self.fate,
            "since": self.since,
            "parts": list(self.parts),
            "failures": self.failures,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """All that is pending; for a sink that could not be asked, why."""

    transactions: Sequence[PendingTransaction] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "transactions": [each.to_dict() for each in self.transactions],
            "unreachable": dict(self.unreachable),
        }


class Outcome(Enum):
    """What was done with a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Settled:
    """A transaction, and what was done with it."""

    sink: str
    checkpoint: int | None
    """``None`` if the sink could not even be asked what it has."""
    outcome: Outcome
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "sink": self.sink,
            "checkpoint": self.checkpoint,
            "outcome": self.outcome.value,
            "reason": self.reason,
        }


# What may be done


def why_not_commit(transaction: PendingTransaction, force: bool) -> str | None:
    """The reason why it must not be committed, if there is one."""
    if not transaction.has_sink:
        return f"the job has no sink {transaction.sink!r} any more: put it back into the script"
    if transaction.owner is Owner.COMPLETED or force:
        return None
    if transaction.owner is Owner.BATCH:
        return (
            "no completed checkpoint owns it yet: the next checkpoint after a start does and "
            "commits it; a start from an older checkpoint would write these rows again. --force "
            "commits it now"
        )
    return (
        "no completed checkpoint owns it: the job will read these rows again, so they would be "
        "there twice. The next start aborts it; --force commits it all the same"
    )


def why_not_abort(transaction: PendingTransaction, force: bool) -> str | None:
    """The reason why it must not be aborted, if there is one."""
    if not transaction.has_sink:
        return f"the job has no sink {transaction.sink!r} any more: put it back into the script"
    if transaction.owner is Owner.NOBODY:
        return None
    if transaction.keeps_rows and not transaction.can_be_dropped:
        return (
            "its rows are kept in the checkpoint and the store has nothing of them: the next start "
            "writes them, and this sink has no way to leave them out"
        )
    if force:
        return None
    if transaction.keeps_rows:
        return (
            "its rows are kept in the checkpoint and the store has nothing of them: the next start "
            "writes them, nobody reads them again. If the store will never take them: --force "
            "counts them as written, and they are lost"
        )
    if transaction.owner is Owner.BATCH:
        return (
            "its batch is done and its rows are nowhere else: they would be lost. The next "
            "checkpoint after a start commits it; --force aborts it all the same"
        )
    return (
        f"checkpoint {transaction.checkpoint} is complete and has promised these rows: nobody "
        "reads them again, so they would be lost. `holdfast transactions commit` commits it; "
        "--force aborts it all the same"
    )


# What becomes of it


def of_running(
    sink: str, found: OpenTransaction, figures: CommitFigures | None, triggered: float | None
) -> PendingTransaction:
    """What a sink of a running job has open."""
    number = found.transaction.checkpoint
    tries = figures.in_a_row if figures is not None else 0
    error = figures.error if figures is not None else None
    owner = Owner.UNDER_WAY
    fate = f"checkpoint {number}, under way"
    if found.is_promised:
        owner = Owner.COMPLETED
        fate = f"checkpoint {number}, completed: is being committed"
        if tries:
            fate = f"checkpoint {number}, completed: is being tried ({_failures(tries, error)})"
    elif found.has_failed:
        owner = Owner.NOBODY
        fate = f"nobody, for checkpoint {number} has failed: will be aborted"
    return PendingTransaction(
        sink, number, owner, fate, found.parts, triggered, tries, error, found.transaction.handle
    )


def _failures(tries: int, error: str | None) -> str:
    first = (error or "").partition("\n")[0]
    return f"{tries} failure{'s' if tries > 1 else ''}, last: {first}"


def fate_of_owned(checkpoint: int, ended: str | None, in_doubt: bool) -> str:
    """Of a job that does not run."""
    when = "will be committed at the next start"
    if ended is not None:
        when = f"the job is {ended.lower()}; a start with --from this checkpoint commits it"
    doubt = ", unless that has happened" if in_doubt else ""
    return f"checkpoint {checkpoint}, completed: {when}{doubt}"


def fate_of_batch(batch: int, ended: str | None) -> str:
    """Of a job that does not run, and did not stage the rows."""
    if ended is not None:
        return f"batch {batch} of a job that is {ended.lower()}: a start aborts it"
    return f"batch {batch}, done: the first checkpoint after the next start takes it over"


def fate_of_unowned(ended: str | None) -> str:
    """Of a job that does not run."""
    if ended is not None:
        return "nobody: a start with --from or --fresh aborts it"
    return "nobody: will be aborted at the next start"
