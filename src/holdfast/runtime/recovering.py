"""From what a job goes on: its own query logs, a checkpoint, or nothing."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, replace

from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.checkpoints.store import CheckpointStore
from holdfast.errors import (
    DamagedFile,
    MissingFile,
    NotRestorable,
    QueryLogError,
    StorageError,
)
from holdfast.protocol.recovery import (
    Candidate,
    Fresh,
    FromLatest,
    Nowhere,
    Policy,
    Restore,
    Resume,
    choose,
    policy_of,
)
from holdfast.protocol.statistics import Status
from holdfast.runtime.attempts import base_of, restored
from holdfast.runtime.examining import problem_of, refuse_outage, where
from holdfast.runtime.life import Place
from holdfast.runtime.replaying import Replay, planned
from holdfast.runtime.work import Attempt
from holdfast.settings import Mode

_log = logging.getLogger(__name__)


class NothingToRestore(NotRestorable):
    """Neither query logs nor a checkpoint can be used."""

    code = "NOTHING_TO_RESTORE"


@dataclass(frozen=True, slots=True)
class Found:
    """An attempt to go on with, and how it was come by."""

    attempt: Attempt
    restored_from: int | None = None
    """The checkpoint, if it was not resumed."""
    passed_over: tuple[Candidate, ...] = ()
    """Newer checkpoints that cannot be used."""


def find_attempt(place: Place, attempt: Attempt | None, *, may_use_own: bool = True) -> Found:
    """Go on where the query logs stand if they are intact, else from the newest checkpoint.

    A checkpoint is tried by restoring it into a new attempt, which checks every file before the
    attempt is there. One that fails the check is passed over, and nothing has changed.
    """
    newest = place.store.latest
    if attempt is not None and newest is not None and newest.attempt > attempt.number:
        attempt = None  # a later one is lost
    problem = _problem(place, attempt)
    candidates = _candidates(place.store, attempt)
    ever_completed = place.history.latest(Status.COMPLETED) is not None
    if attempt is None and not candidates and not ever_completed:
        return Found(place.work.begin(None))  # it has never run
    replay = functools.partial(_replay, place, attempt)
    policy = _policy(place, attempt)
    while True:
        plan = choose(
            policy,
            problem,
            candidates,
            may_use_own=may_use_own,
            ever_completed=ever_completed,
        )
        if isinstance(plan, Resume):
            assert attempt is not None
            return Found(attempt)
        if isinstance(plan, Fresh | FromLatest):
            _log.warning("the job begins without its state [policy=%s]", policy.value)
            _make_room(place, attempt)
            return Found(place.work.begin(None))
        if not isinstance(plan, Restore):
            raise _nothing_to_restore(plan, place)
        chosen = plan.candidate
        _make_room(place, attempt)
        try:
            fresh = restored(place.work, place.graph, chosen.path, replay)
            return Found(fresh, chosen.id, plan.skipped)
        except (DamagedFile, MissingFile, StorageError) as error:
            refuse_outage(error)
            _log.warning("checkpoint %s cannot be used: %s", chosen.id, error)
            found = f"{error.message} {where(error)}".strip()
            candidates = [replace(c, problem=found) if c is chosen else c for c in candidates]


def _make_room(place: Place, attempt: Attempt | None) -> None:
    """Of those that are left behind only this one may be needed: the new one learns from it.

    Every failure on the last rung begins another attempt, with all the state, and only a checkpoint
    of its own would remove those before it: a night without one would fill the disk.
    """
    if attempt is None:
        return
    try:
        place.work.remove_older(attempt)
    except StorageError:
        _log.exception("older attempts were not deleted")


def _problem(place: Place, attempt: Attempt | None) -> str | None:
    if attempt is None:
        return "there is no attempt in the working directory"
    problem = problem_of(attempt, place.graph, place.store)
    if problem is not None:
        _log.warning("the working directory cannot be used: %s", problem)
    return problem


def _policy(place: Place, attempt: Attempt | None) -> Policy:
    """A bounded job begins anew only as long as no sink has got anything of it."""
    settings, sources = place.settings, place.graph.sources.values()
    is_bounded = all(getattr(source.open, "bounded", False) for source in sources)
    chosen = policy_of(settings.checkpointing.mode, settings.bounded_restart, is_bounded=is_bounded)
    number = attempt.number if attempt is not None else 0
    has_own = any(m.attempt >= number for m in place.store.completed.values())
    return Policy.RECOVER if chosen is Policy.SCRATCH and has_own else chosen


def _replay(place: Place, old: Attempt | None, metadata: CheckpointMetadata) -> Replay | None:
    """What sinks have got behind the checkpoint that is restored."""
    if old is None or metadata.mode != Mode.EXACTLY_ONCE.value:
        return None
    store = place.store
    try:
        newest = base_of(old, store.completed, store.damaged)
        if newest is None or newest.id <= metadata.id:
            return None
        return planned(old, metadata, newest)
    except (QueryLogError, StorageError) as error:
        refuse_outage(error)
        _log.warning(
            "rows that sinks committed after checkpoint %s, if there are any, will be written "
            "again, because it is not known any more which batches they came from: %s",
            metadata.id,
            error,
        )
        return None


def _candidates(store: CheckpointStore, attempt: Attempt | None) -> list[Candidate]:
    """Every checkpoint of the attempt and of what it came from, the newest first."""
    problems = {number: error.message for number, error in store.damaged.items()}
    ours = {n for n, m in store.completed.items() if attempt is None or _led_to(m, attempt)}
    known = sorted({*ours, *problems}, reverse=True)
    return [Candidate(n, store.path_of(n), problems.get(n)) for n in known]


def _led_to(metadata: CheckpointMetadata, attempt: Attempt) -> bool:
    """Not so a checkpoint that a start afresh, or from an older one, has left behind."""
    origin = attempt.restored_from
    return metadata.attempt >= attempt.number or (origin is not None and metadata.id <= origin)


def _nothing_to_restore(plan: object, place: Place) -> NothingToRestore:
    why = plan.why if isinstance(plan, Nowhere) else str(plan)
    return NothingToRestore(
        f"there is nothing to go on from: {why}",
        hint="Nothing was deleted. Bring back one of the files, or start with --fresh.",
        work=place.work.location,
    )
