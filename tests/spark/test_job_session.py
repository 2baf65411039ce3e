"""The session of a job, in a Spark that runs."""

from __future__ import annotations

from typing import Any

from holdfast.spark.job_session import QUERY_LOG_ON_LOCAL_DISK, job_session

(FILES,) = QUERY_LOG_ON_LOCAL_DISK
STATIC = "spark.sql.warehouse.dir"


def test_our_settings_are_set_also_if_spark_does_not_list_them(spark: Any) -> None:
    assert not spark.conf.isModifiable(FILES)
    session = job_session("job", None, {FILES: "ours"}, {})
    assert session.conf.get(FILES) == "ours"
    assert spark.conf.get(FILES) != "ours"


def test_what_the_user_says_counts_and_what_is_for_the_start_of_spark_is_left(spark: Any) -> None:
    key = "spark.sql.shuffle.partitions"
    user = {key: "7", FILES: "theirs", STATIC: "elsewhere"}
    session = job_session("job", None, {key: "3", FILES: "ours"}, user)
    assert session.conf.get(key) == "7"
    assert session.conf.get(FILES) == spark.conf.get(FILES)
    assert session.conf.get(STATIC) == spark.conf.get(STATIC)
