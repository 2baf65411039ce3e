from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.settings import (
    Backend,
    Mode,
    Retention,
    Settings,
    SettingsError,
    StorageKind,
    Trigger,
    resolve,
)

CHK = "execution.checkpointing."


def settings(
    code: Mapping[str, object] | None = None,
    arguments: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    return resolve(arguments=arguments or {}, environ=environ or {}, file=file, code=code or {})


def refusal(*args: object, **kwargs: object) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(*args, **kwargs)  # type: ignore[arg-type]
    return str(caught.value)


def test_with_nothing_set_a_job_checkpoints_to_files_beside_its_work_and_not_periodically() -> None:
    nothing = settings()
    assert nothing.checkpointing.interval is None
    assert nothing.checkpointing.storage is StorageKind.FILESYSTEM
    assert nothing.checkpointing.dir == "holdfast-data/checkpoints"
    assert nothing.history_dir == "holdfast-data/history"
    assert nothing.checkpointing.mode is Mode.EXACTLY_ONCE
    assert nothing.checkpointing.timeout == 600
    assert nothing.checkpointing.retention is Retention.NO_EXTERNALIZED_CHECKPOINTS
    assert nothing.trigger == Trigger("as-fast-as-possible")
    assert nothing.backend is Backend.HASHMAP
    assert nothing.channel_capacity == 256 * 2**20
    assert nothing.rest_port == 0


def test_old_spellings_of_flink_mean_the_same_as_the_new_ones() -> None:
    old = settings(
        {
            "state.backend": "rocksdb",
            "state.checkpoints.dir": "s3://bucket/c",
            "state.checkpoints.num-retained": 3,
            f"{CHK}unaligned": True,
            f"{CHK}alignment-timeout": "5s",
            "execution.savepoint.path": "/savepoint",
        }
    )
    new = settings(
        {
            "state.backend.type": Backend.ROCKSDB,
            f"{CHK}dir": "s3://bucket/c",
            f"{CHK}num-retained": "3",
            f"{CHK}unaligned.enabled": "TRUE",
            f"{CHK}aligned-checkpoint-timeout": timedelta(seconds=5),
            "execution.state-recovery.path": Path("/savepoint"),
        }
    )
    assert old == new


def test_in_one_place_the_current_spelling_counts() -> None:
    both = {"state.backend": "hashmap", "state.backend.type": "rocksdb"}
    assert settings(both).backend is Backend.ROCKSDB


def test_a_stronger_place_wins_even_with_an_old_spelling() -> None:
    found = settings({f"{CHK}dir": "/code"}, arguments={"state.checkpoints.dir": "/argument"})
    assert found.checkpointing.dir == "/argument"


def test_what_code_leaves_open_is_not_set() -> None:
    assert settings({f"{CHK}interval": None}).checkpointing.interval is None


def test_a_longer_pause_raises_the_interval() -> None:
    found = settings({f"{CHK}interval": "1s", f"{CHK}min-pause": "1 min"}).checkpointing
    assert (found.interval, found.min_pause) == (60, 60)


def test_a_pause_of_more_than_a_year_counts_as_a_year() -> None:
    assert settings({f"{CHK}min-pause": "400 d"}).checkpointing.min_pause == 365 * 86400


@pytest.mark.parametrize(
    ("work", "checkpoints"),
    [
        ("work", "checkpoints"),
        ("/work/", "/checkpoints"),
        ("a/b/work", "a/b/checkpoints"),
        ("file:/a/work", "file:/a/checkpoints"),
        ("hdfs:///work", "hdfs:///checkpoints"),
        ("s3://bucket/jobs/work", "s3://bucket/jobs/checkpoints"),
    ],
)
def test_checkpoints_lie_beside_the_work_directory(work: str, checkpoints: str) -> None:
    assert settings({"holdfast.work.dir": work}).checkpointing.dir == checkpoints


@pytest.mark.parametrize("work", ["/", ".", "a/..", "s3://bucket", "s3://bucket/", "hdfs:///"])
def test_a_work_directory_without_a_name_is_refused(work: str) -> None:
    assert "must be a named directory" in refusal({"holdfast.work.dir": work})


def test_snapshots_in_memory_need_no_directory_and_may_have_one() -> None:
    memory = {f"{CHK}storage": "JobManager"}
    assert settings(memory).checkpointing.dir is None
    assert settings({**memory, f"{CHK}dir": "/metadata"}).checkpointing.dir == "/metadata"


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("ASAP", Trigger("as-fast-as-possible")),
        ("0", Trigger("as-fast-as-possible")),
        ("10s", Trigger("interval", 10)),
        ("available_now", Trigger("available-now")),
    ],
)
def test_a_trigger_is_a_word_or_a_duration(text: str, trigger: Trigger) -> None:
    assert settings({"holdfast.trigger": text}).trigger == trigger


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (f"{CHK}interval", "9ms", "at least 10 ms"),
        (f"{CHK}interval", "soon", "must be a duration"),
        (f"{CHK}timeout", 5, "at least 10 ms"),
        (f"{CHK}timeout", 10.5, "must be a duration"),
        (f"{CHK}min-pause", "-1", "must be a duration"),
        (f"{CHK}max-concurrent-checkpoints", 0, "at least 1"),
        (f"{CHK}num-retained", 0, "at least 1"),
        (f"{CHK}tolerable-failed-checkpoints", -1, "at least 0"),
        (f"{CHK}data-inline-threshold", "1025 kb", "at most 1 mb"),
        (f"{CHK}data-inline-threshold", "1 pb", "must be a size"),
        (f"{CHK}incremental", 1, "must be true or false"),
        (f"{CHK}mode", "twice", "must be one of exactly-once, at-least-once, at-most-once"),
        (f"{CHK}dir", " ", "is empty"),
        (f"{CHK}dir", {"a": 1}, "must be text, a number or a boolean"),
        ("holdfast.trigger", "later", "must be asap, available-now or a duration"),
        ("rest.port", 65536, "at most 65535"),
        ("parallelism.default", "two", "must be a whole number"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(
    key: str, value: object, allowed: str
) -> None:
    said = refusal({key: value})
    assert f"{key} = " in said
    assert "(code)" in said
    assert allowed in said


def test_unaligned_checkpoints_need_exactly_once_and_no_concurrency() -> None:
    said = refusal(
        {
            f"{CHK}unaligned": True,
            f"{CHK}mode": "AT_LEAST_ONCE",
            f"{CHK}max-concurrent-checkpoints": 2,
        }
    )
    assert f"needs {CHK}mode exactly-once" in said
    assert "max-concurrent-checkpoints = '2' (code): must be 1" in said


def test_all_problems_are_reported_at_once_with_where_they_came_from(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text('"state.backend" = "rocksb"\n')
    said = refusal(
        {"rest.port": -1},
        arguments={f"{CHK}intervall": "5s"},
        environ={"HOLDFAST_EXECUTION_CHECKPOINTING_TIMEOUT": "1"},
        file=file,
    )
    assert said.startswith("4 settings are wrong:")
    assert f"(argument): is not a key; did you mean {CHK}interval?" in said
    assert "(environment HOLDFAST_EXECUTION_CHECKPOINTING_TIMEOUT): must be at least" in said
    assert f"({file}): must be one of hashmap, rocksdb" in said
    assert "rest.port = '-1' (code)" in said


def test_a_value_that_cannot_be_read_causes_no_second_complaint() -> None:
    said = refusal({"state.backend": "rocksb", "state.backend.rocksdb.files.open": 5})
    assert said.startswith("a setting is wrong")


def test_a_settings_error_is_a_usage_error_that_survives_a_pickle() -> None:
    with pytest.raises(UsageError) as caught:
        settings({"nothing": 1})
    assert caught.value.code == "SETTINGS"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_settings_survive_a_pickle() -> None:
    found = settings({"spark.a": "b", f"{CHK}interval": "1 s"})
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_description_says_every_value_and_where_it_came_from() -> None:
    described = settings(
        {"spark.executor.memory": "4g", "state.backend": "rocksdb"},
        arguments={f"{CHK}interval": "10s"},
    ).describe()
    assert (f"{CHK}interval", "10s", "argument") in described
    assert ("state.backend.type", "rocksdb", "code") in described
    assert (f"{CHK}dir", "holdfast-data/checkpoints", "default") in described
    assert ("spark.executor.memory", "4g", "code") in described


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.ssl.keyPassword",
        "spark.my.token",
        "spark.credentials.file",
    ],
)
def test_secrets_reach_spark_and_are_never_shown(key: str) -> None:
    found = settings({key: "hunter2"})
    assert found.spark == {key: "hunter2"}
    assert (key, "******", "code") in found.describe()
    assert "hunter2" not in repr(found)
    assert "hunter2" not in refusal({key.removeprefix("spark."): "hunter2"})
