"""What Spark is started with: on this machine, on a cluster, by spark-submit."""

from __future__ import annotations

import pytest

from holdfast.spark.job_session import STATE_PARTITIONS, context_settings, partition_settings
from holdfast.spark.session import is_local, is_on_this_machine

_EXCLUDE = "spark.excludeOnFailure"
_CLUSTER = "spark://master:7077"


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_local_master_has_no_executors_to_exclude(master: str) -> None:
    assert is_local(master)
    assert not any(key.startswith(_EXCLUDE) for key in context_settings(master, {}, {}))


@pytest.mark.parametrize("master", [_CLUSTER, "yarn", "k8s://https://host", "local-cluster[2,1,1]"])
def test_on_a_cluster_an_executor_on_which_tasks_keep_failing_is_excluded(master: str) -> None:
    assert not is_local(master)
    assert context_settings(master, {}, {})[f"{_EXCLUDE}.enabled"] == "true"


def test_what_the_user_says_about_exclusion_counts() -> None:
    user = {f"{_EXCLUDE}.enabled": "false", f"{_EXCLUDE}.timeout": "1h"}
    found = context_settings(_CLUSTER, user, {})
    assert {key: found[key] for key in user} == user


@pytest.mark.parametrize("attempts", [2, 3, 4, 8])
def test_a_task_has_an_attempt_left_for_another_machine(attempts: int) -> None:
    found = context_settings(_CLUSTER, {"spark.task.maxFailures": str(attempts)}, {})
    executor = int(found[f"{_EXCLUDE}.task.maxTaskAttemptsPerExecutor"])
    assert 1 <= executor <= int(found[f"{_EXCLUDE}.task.maxTaskAttemptsPerNode"]) < attempts


def test_tasks_with_a_single_attempt_exclude_nobody() -> None:
    found = context_settings(_CLUSTER, {"spark.task.maxFailures": "1"}, {})
    assert f"{_EXCLUDE}.enabled" not in found


def test_a_batch_that_may_run_nowhere_waits_only_if_more_executors_can_be_asked_for() -> None:
    timeout = "spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout"
    assert context_settings(_CLUSTER, {}, {})[timeout] == "0s"
    dynamic = {"spark.dynamicAllocation.enabled": "true"}
    assert timeout not in context_settings(_CLUSTER, dynamic, {})


def test_a_job_that_is_submitted_runs_where_it_was_submitted_to() -> None:
    submitted = {"spark.master": _CLUSTER, "spark.scheduler.mode": "FIFO"}
    found = context_settings(None, {}, submitted)
    assert found["spark.master"] == _CLUSTER
    assert found["spark.scheduler.mode"] == "FIFO"
    assert found[f"{_EXCLUDE}.enabled"] == "true"


def test_the_job_s_own_settings_count_more_than_those_of_spark_submit() -> None:
    submitted = {"spark.master": _CLUSTER, "spark.executor.memory": "1g"}
    found = context_settings("local[2]", {"spark.executor.memory": "2g"}, submitted)
    assert found["spark.master"] == "local[2]"
    assert found["spark.executor.memory"] == "2g"


def test_without_a_master_spark_runs_in_this_process() -> None:
    assert context_settings(None, {}, {})["spark.master"] == "local[*]"


@pytest.mark.parametrize(
    "master",
    [
        "local[2]",
        "local-cluster[2,1,1024]",
        "spark://127.0.0.1:7077",
        "spark://localhost:1,[::1]:2",
    ],
)
def test_the_loopback_address_is_enough_for_what_is_on_this_machine(master: str) -> None:
    assert is_on_this_machine(master)


@pytest.mark.parametrize(
    "master",
    [_CLUSTER, "spark://localhost:1,10.0.0.2:2", "spark://[fe80::1]:7077", "yarn", "k8s://x"],
)
def test_executors_on_other_machines_need_a_real_address_of_the_driver(master: str) -> None:
    assert not is_on_this_machine(master)


def test_on_one_machine_a_job_has_as_many_state_partitions_as_cores() -> None:
    assert partition_settings("local[3]", 3, {}) == {STATE_PARTITIONS: "3"}


def test_a_cluster_and_what_somebody_has_said_keep_their_state_partitions() -> None:
    assert partition_settings(_CLUSTER, 3, {}) == {}
    assert partition_settings("local[3]", 3, {STATE_PARTITIONS: "200"}) == {}
