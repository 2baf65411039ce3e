"""Which batch is meant, and which ones can be restored."""

from __future__ import annotations

from holdfast.errors import NotRestorable
from holdfast.querylog.log import QueryLog
from holdfast.querylog.needs import Plan
from holdfast.querylog.planning import plan_handle

_LISTED = 8


def newest_batch(log: QueryLog) -> int:
    """The last batch that was committed; ``NotRestorable`` if none was."""
    if not log.committed:
        raise NotRestorable(
            "no batch has been committed yet, so there is nothing to restart from",
            hint="Let the query finish its first batch.",
            path=log.storage.uri,
            planned=len(log.unfinished),
        )
    return log.committed[-1]


def restorable_plan(log: QueryLog, batch: int | None) -> Plan:
    """The plan of ``batch``, or of the newest one with the plan of the unfinished batch after it.

    ``NotRestorable`` names the first thing that is wrong and the batches that would do.
    """
    chosen = newest_batch(log) if batch is None else batch
    plan = plan_handle(log, chosen, with_unfinished=batch is None)
    if plan.problems:
        raise _refusal(log, plan)
    return plan


def restorable_batches(log: QueryLog) -> dict[int, Plan]:
    """A plan for every committed batch, newest first; those without problems can be restored."""
    return {b: plan_handle(log, b, with_unfinished=False) for b in reversed(log.committed)}


def _refusal(log: QueryLog, plan: Plan) -> NotRestorable:
    if plan.batch not in log.committed:
        what = f"batch {plan.batch} is not a committed batch of this query log"
        ids: dict[str, object] = {"path": log.storage.uri}
    else:
        first = plan.problems[0]
        what = f"batch {plan.batch} cannot be restored: {first.what}"
        ids = {"path": first.path, "problems": len(plan.problems)}
    return NotRestorable(what, hint=choices(log), batch=plan.batch, **ids)


def choices(log: QueryLog) -> str:
    """Which batches can be restored, in words."""
    good = sorted(b for b, p in restorable_batches(log).items() if not p.problems)
    if not good:
        return "No batch of this query log can be restored; see `holdfast log verify`."
    return f"Batches that can be restored: {batch_ranges(good, _LISTED)}."


def batch_ranges(batches: list[int] | tuple[int, ...], most: int | None = None) -> str:
    """``0-4, 7, 9-12``; of more than ``most`` ranges the oldest are left out."""
    ranges: list[list[int]] = []
    for batch in batches:
        if ranges and batch == ranges[-1][1] + 1:
            ranges[-1][1] = batch
        else:
            ranges.append([batch, batch])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in ranges]
    return ", ".join(texts if most is None or len(texts) <= most else ["…", *texts[-most:]])
