"""Every field that Flink's clients read is there with the right type."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.server.shapes import checkpoints, cluster, details, jobs, own, vertices
from holdfast.server.shapes.exceptions import exceptions
from holdfast.server.shapes.numbers import quantile, spread, summary
from holdfast.server.shapes.throwables import serialized_throwable
from tests.unit.server_jobs import (
    completed,
    failed,
    failed_view,
    in_progress,
    job_view,
    restored_view,
    settings,
)

# A field that may be missing or null has a "?" behind its type.
SUMMARY = {"min": int, "max": int, "avg": int} | dict.fromkeys(
    ("p50", "p90", "p95", "p99", "p999"), float
)
CHECKPOINT = {
    "className": str, "id": int, "status": str, "is_savepoint": bool, "trigger_timestamp": int,
    "latest_ack_timestamp": int, "checkpointed_size": int, "state_size": int,
    "end_to_end_duration": int, "alignment_buffered": int, "processed_data": int,
    "persisted_data": int, "num_subtasks": int, "num_acknowledged_subtasks": int,
    "checkpoint_type": str, "tasks": dict,
}  # fmt: skip
PART = {
    "id": int, "status": str, "latest_ack_timestamp": int, "checkpointed_size": int,
    "state_size": int, "end_to_end_duration": int, "alignment_buffered": int,
    "processed_data": int, "persisted_data": int, "num_subtasks": int,
    "num_acknowledged_subtasks": int,
}  # fmt: skip
METRICS = {
    "read-bytes": int, "read-bytes-complete": bool, "write-bytes": int,
    "write-bytes-complete": bool, "read-records": int, "read-records-complete": bool,
    "write-records": int, "write-records-complete": bool, "accumulated-backpressured-time": int,
    "accumulated-idle-time": int, "accumulated-busy-time": float,
}  # fmt: skip
TASK_STATES = (
    "created", "scheduled", "deploying", "running", "finished", "canceling", "canceled", "failed",
    "reconciling", "initializing",
)  # fmt: skip


def fits(document: Any, shape: Any, where: str = "") -> None:
    """Each field of the shape is in the document and has its type."""
    if isinstance(shape, dict):
        assert isinstance(document, dict), where
        for name, inner in shape.items():
            assert name in document, f"{where}.{name} is missing"
            fits(document[name], inner, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(document, list), where
        assert document, f"{where} is empty"
        for item in document:
            fits(item, shape[0], f"{where}[]")
    else:
        # bool is an int to Python and not to Java
        assert type(document) is shape, f"{where} is {document!r}"


OVERVIEW = {
    "jid": str, "name": str, "jobType": str, "schedulerType": str, "start-time": int,
    "end-time": int, "duration": int, "state": str, "last-modification": int,
    "tasks": {"total": int} | dict.fromkeys(TASK_STATES, int), "pending-operators": int,
}  # fmt: skip
PLAN = {
    "jid": str, "name": str, "type": str,
    "nodes": [
        {
            "id": str, "parallelism": int, "operator": str, "operator_strategy": str,
            "description": str, "optimizer_properties": dict, "inputs": list,
        }
    ],
}  # fmt: skip
VERTEX = {
    "id": str, "slotSharingGroupId": str, "name": str, "maxParallelism": int, "parallelism": int,
    "status": str, "start-time": int, "end-time": int, "duration": int,
    "tasks": dict.fromkeys(map(str.upper, TASK_STATES), int), "metrics": METRICS,
}  # fmt: skip
DETAILS = {
    "jid": str, "application-id": str, "name": str, "isStoppable": bool, "state": str,
    "job-type": str, "schedulerType": str, "start-time": int, "end-time": int, "duration": int,
    "maxParallelism": int, "now": int, "timestamps": dict.fromkeys(jobs.JOB_STATES, int),
    "vertices": [VERTEX], "status-counts": dict.fromkeys(map(str.upper, TASK_STATES), int),
    "plan": PLAN, "pending-operators": int,
}  # fmt: skip
CONFIG = {
    "jid": str, "name": str,
    "execution-config": {
        "restart-strategy": str, "job-parallelism": int, "object-reuse-mode": bool,
        "user-config": dict,
    },
}  # fmt: skip
STATISTICS = {
    "counts": {"restored": int, "total": int, "in_progress": int, "completed": int, "failed": int},
    "summary": dict.fromkeys(
        ("checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered",
         "processed_data", "persisted_data"), SUMMARY
    ),
    "latest": {
        "completed": CHECKPOINT | {"external_path": str, "discarded": bool},
        "savepoint": type(None),
        "failed": CHECKPOINT | {"failure_timestamp": int, "failure_message": str},
        "restored": type(None),
    },
    "history": [CHECKPOINT],
}  # fmt: skip
CHECKPOINT_CONFIG = {
    "mode": str, "interval": int, "timeout": int, "min_pause": int, "max_concurrent": int,
    "externalization": {"enabled": bool, "delete_on_cancellation": bool}, "state_backend": str,
    "checkpoint_storage": str, "unaligned_checkpoints": bool, "tolerable_failed_checkpoints": int,
    "aligned_checkpoint_timeout": int, "checkpoints_after_tasks_finish": bool,
    "state_changelog_enabled": bool, "changelog_periodic_materialization_interval": int,
}  # fmt: skip
SUBTASKS = PART | {
    "summary": {
        "checkpointed_size": SUMMARY, "state_size": SUMMARY, "end_to_end_duration": SUMMARY,
        "checkpoint_duration": {"sync": SUMMARY, "async": SUMMARY},
        "alignment": dict.fromkeys(("buffered", "processed", "persisted", "duration"), SUMMARY),
        "start_delay": SUMMARY,
    },
    "subtasks": [
        {
            "className": str, "index": int, "status": str, "ack_timestamp": int,
            "end_to_end_duration": int, "checkpointed_size": int, "state_size": int,
            "checkpoint": {"sync": int, "async": int},
            "alignment": {"buffered": int, "processed": int, "persisted": int, "duration": int},
            "start_delay": int, "unaligned_checkpoint": bool, "aborted": bool,
        }
    ],
}  # fmt: skip
SPREAD = dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), int)
VERTEX_DETAILS = {
    "id": str, "name": str, "parallelism": int, "maxParallelism": int, "now": int,
    "subtasks": [
        {
            "subtask": int, "status": str, "attempt": int, "endpoint": str, "start-time": int,
            "start_time": int, "end-time": int, "duration": int, "metrics": METRICS,
            "taskmanager-id": str, "status-duration": {"RUNNING": int},
        }
    ],
    "aggregated": {"metrics": {"read-records": SPREAD}, "status-duration": {"RUNNING": SPREAD}},
}  # fmt: skip
CLUSTER = dict.fromkeys(
    ("taskmanagers", "slots-total", "slots-available", "jobs-running", "jobs-finished",
     "jobs-cancelled", "jobs-failed"), int
) | {"flink-version": str, "flink-commit": str}  # fmt: skip
CLUSTER_CONFIG = {
    "refresh-interval": int, "timezone-name": str, "timezone-offset": int, "flink-version": str,
    "flink-revision": str,
    "features": dict.fromkeys(("web-submit", "web-cancel", "web-rescale", "web-history"), bool),
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        (jobs.job_id(job_view()), {"id": str, "status": str}),
        (jobs.overview(job_view()), OVERVIEW),
        (jobs.details(job_view()), DETAILS),
        (jobs.plan(job_view()), PLAN),
        (jobs.config(job_view()), CONFIG),
        (checkpoints.statistics(job_view()), STATISTICS),
        (checkpoints.config(settings()), CHECKPOINT_CONFIG),
        (checkpoints.checkpoint(in_progress()), CHECKPOINT),
        (details.subtask_details(completed(), "pv"), SUBTASKS),
        (vertices.vertex_details(job_view(), job_view().regions[1]), VERTEX_DETAILS),
        (cluster.overview([job_view()]), CLUSTER),
        (cluster.config(), CLUSTER_CONFIG),
    ],
    ids=lambda item: "" if isinstance(item, dict) else None,
)
def test_every_field_is_there_with_its_type(document: Any, shape: Any) -> None:
    fits(document, shape)
    json.dumps(document, allow_nan=False)


def test_details_of_a_checkpoint_have_every_vertex_also_those_that_did_not_answer() -> None:
    view = job_view()
    document = details.checkpoint_details(view, failed())
    ids = [v["id"] for v in jobs.details(view)["vertices"]]
    assert list(document["tasks"]) == ids
    for part in document["tasks"].values():
        fits(part, PART)
    assert [part["num_acknowledged_subtasks"] for part in document["tasks"].values()] == [1, 0]


def test_a_region_that_has_not_answered_is_one_pending_subtask() -> None:
    document = details.subtask_details(in_progress(), "pv")
    assert document["subtasks"] == [
        {"className": "pending", "index": 0, "status": "pending_or_failed"}
    ]
    assert document["summary"]["state_size"]["p50"] == "NaN"


def test_the_sizes_of_subtasks_add_up_to_those_of_their_region() -> None:
    document = details.subtask_details(completed(), "pv")
    for size in ("state_size", "checkpointed_size"):
        assert sum(task[size] for task in document["subtasks"]) == document[size]
    assert document["num_subtasks"] == len(document["subtasks"]) == 2


def test_times_are_milliseconds_and_a_checkpoint_says_how_it_ended() -> None:
    done = checkpoints.checkpoint(completed())
    assert (done["trigger_timestamp"], done["end_to_end_duration"]) == (1_790_000_011_000, 1000)
    assert (done["external_path"], done["discarded"]) == ("/chk/chk-1", False)
    assert "failure_message" not in done
    under_way = checkpoints.checkpoint(in_progress())
    assert (under_way["end_to_end_duration"], under_way["latest_ack_timestamp"]) == (-1, -1)


def test_the_history_is_newest_first_and_as_long_as_the_setting_says() -> None:
    view = job_view()
    assert [c["id"] for c in checkpoints.statistics(view)["history"]] == [3, 2, 1]
    short = replace(view, settings=settings(web__checkpoints__history="1"))
    assert [c["id"] for c in checkpoints.statistics(short)["history"]] == [3]


def test_a_run_that_began_from_a_checkpoint_says_so() -> None:
    statistics = checkpoints.statistics(restored_view())
    assert statistics["counts"]["restored"] == 1
    assert statistics["latest"]["restored"] == {
        "id": 7,
        "restore_timestamp": 1_790_000_000_000,
        "is_savepoint": False,
        "external_path": "/old/chk-7",
    }


def test_without_an_interval_it_is_the_largest_number() -> None:
    assert checkpoints.config(settings())["interval"] == 2**63 - 1
    given = settings(execution__checkpointing__interval="10 s")
    assert checkpoints.config(given)["interval"] == 10_000


def test_the_plan_draws_a_line_from_producer_to_reader() -> None:
    first, second = jobs.plan(job_view())["nodes"]
    assert first["inputs"] == []
    assert [i["id"] for i in second["inputs"]] == [first["id"]]
    assert first["description"] == "source clicks<br/>region views<br/>sink raw"


def test_vertex_ids_are_32_hex_digits_that_never_change() -> None:
    assert vertices.vertex_id("pv") == "99bea2cd698b56b1a3b8c1701bd51c67"


def test_the_result_of_a_job_is_there_when_it_is_over() -> None:
    assert jobs.execution_result(job_view()) == {"status": {"id": "IN_PROGRESS"}}
    done = jobs.execution_result(job_view("FINISHED"))["job-execution-result"]
    assert (done["application-status"], "failure-cause" in done) == ("SUCCEEDED", False)
    bad = jobs.execution_result(failed_view())["job-execution-result"]
    assert bad["application-status"] == "FAILED"
    fits(bad["failure-cause"], {"class": str, "stack-trace": str, "serialized-throwable": str})


def test_a_failure_is_in_the_exceptions_with_its_region() -> None:
    assert exceptions(job_view(), 20)["exceptionHistory"]["entries"] == []
    (entry,) = exceptions(failed_view(), 20)["exceptionHistory"]["entries"]
    assert entry["taskName"] == "pv"
    assert entry["concurrentExceptions"] == []
    assert exceptions(failed_view(), 0)["exceptionHistory"]["truncated"] is True


def test_the_restart_strategy_is_told_by_the_name_that_the_setting_has() -> None:
    for name in ("none", "fixed-delay", "failure-rate", "exponential-delay"):
        view = replace(job_view(), settings=settings(**{"restart-strategy__type": name}))
        assert jobs.config(view)["execution-config"]["restart-strategy"] == name


def test_a_throwable_for_java_holds_message_and_class() -> None:
    data = serialized_throwable("RegionFailed", "grüße " + "x" * 70_000)
    assert data.startswith(b"\xac\xed\x00\x05sr\x00\x29org.apache.flink.util.SerializedThrowable")
    assert b"gr\\xfc\\xdfe xx" in data
    assert data.endswith(b"t\x00\x0cRegionFailedp")


def test_summaries_of_nothing_have_percentiles_that_are_no_number() -> None:
    assert summary([])["p99"] == "NaN"
    assert summary([1, 2, 3, 10]) | {"p50": 2.5} == summary([10, 3, 2, 1])
    assert spread([4, 8])["sum"] == 12
    assert quantile([0, 10], 0.25) == 2.5


def test_the_own_shape_has_what_flink_has_no_place_for() -> None:
    document = own.job(job_view())
    assert document["channels"][0]["unread"] == 10
    assert document["regions"][1]["rows_per_second"] == 5.0
    assert document["checkpoints"]["latest"]["cause"] == "PERIODIC"
    json.dumps([document, own.checkpoints(job_view(), 2)])
