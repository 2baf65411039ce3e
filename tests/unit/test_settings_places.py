"""Environment variables, TOML files and Spark's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.settings import OPTIONS, Backend, variable_of
from holdfast.settings.known import key_of
from tests.unit.test_settings import CHK, refusal, settings

INTERVAL = f"{CHK}interval"


def written(path: Path, text: str) -> Path:
    file = path / "holdfast.toml"
    file.write_text(text)
    return file


def test_a_file_may_be_flat_or_nested(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        "execution.checkpointing.interval" = "10s"
        [execution.checkpointing]
        num-retained = 3
        unaligned.enabled = true
        [spark.sql]
        "shuffle.partitions" = 4
        """,
    )
    found = settings(file=file)
    assert found.checkpointing.interval == 10
    assert found.checkpointing.num_retained == 3
    assert found.checkpointing.unaligned
    assert found.spark == {"spark.sql.shuffle.partitions": "4"}


def test_a_key_that_a_file_says_twice_is_refused(tmp_path: Path) -> None:
    text = (
        '"execution.checkpointing.interval" = "10s"\n[execution.checkpointing]\ninterval = "9s"\n'
    )
    assert "is given twice" in refusal(file=written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refusal(file=tmp_path / "none.toml")
    assert f"{tmp_path / 'none.toml'} (file): cannot be read: No such file" in said


def test_a_file_that_is_not_toml_is_named_with_the_line(tmp_path: Path) -> None:
    said = refusal(file=written(tmp_path, "a = 1\nb = \n"))
    assert "holdfast.toml (file): is not TOML" in said
    assert "line 2" in said


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_bytes(b"a = '\xff'\n")
    assert "holdfast.toml (file): is not TOML" in refusal(file=file)


def test_a_file_may_hold_no_dates(tmp_path: Path) -> None:
    said = refusal(file=written(tmp_path, "holdfast.trigger = 2026-01-01\n"))
    assert "must be text, a number or a boolean" in said


def test_variables_stand_for_keys() -> None:
    found = settings(
        environ={
            "HOLDFAST_EXECUTION_CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT": "3 s",
            "HOLDFAST_STATE_BACKEND": "rocksdb",
            "HOLDFAST_WORK_DIR": "/data/work",
            "HOLDFAST_HOLDFAST_TRIGGER": "available-now",
            "PATH": "/bin",
        }
    )
    assert found.checkpointing.aligned_timeout == 3
    assert found.backend is Backend.ROCKSDB
    assert found.work_dir == "/data/work"
    assert found.trigger.kind == "available-now"


def test_no_two_options_share_a_variable() -> None:
    for option in OPTIONS:
        for key in (option.key, *option.old):
            assert key_of(variable_of(key)) == key


@pytest.mark.parametrize("value", ["", "10s"])
def test_a_variable_that_stands_for_no_key_is_refused_even_if_empty(value: str) -> None:
    said = refusal(environ={"HOLDFAST_EXECUTION_CHECKPOINTING_INTERVALL": value})
    assert "did you mean HOLDFAST_EXECUTION_CHECKPOINTING_INTERVAL?" in said


@pytest.mark.parametrize("name", ["HOME", "CONFIG", "CRASH_AT", "TOKEN", "DEBUG"])
def test_reserved_variables_are_left_alone(name: str) -> None:
    assert settings(environ={f"HOLDFAST_{name}": "x"}) == settings()


def test_sparks_settings_do_not_come_from_the_environment() -> None:
    said = refusal(environ={"HOLDFAST_SPARK_EXECUTOR_MEMORY": "1g"})
    assert "cannot come from the environment" in said
    assert settings(environ={"HOLDFAST_SPARK_MASTER": "local[2]"}).master == "local[2]"


def test_sparks_settings_pass_unchecked_and_the_strongest_place_wins() -> None:
    found = settings({"spark.a": True, "spark.b": 1.5}, arguments={"spark.a": "x"})
    assert found.spark == {"spark.a": "x", "spark.b": "1.5"}


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("spark.sql.streaming.stateStore.providerClass", "state.backend.type"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "state.backend.type"),
        (
            "spark.sql.streaming.stateStore.rocksdb.changelogcheckpointing.enabled",
            f"{CHK}incremental",
        ),
        ("spark.scheduler.mode", "there is no key"),
        ("spark.sql.streaming.checkpointLocation", "holdfast.work.dir"),
    ],
)
def test_spark_keys_that_holdfast_sets_are_refused_with_what_to_use(key: str, instead: str) -> None:
    said = refusal({key: "x", "state.backend.type": "rocksdb"})
    assert said.startswith("a setting is wrong")
    assert f"{key} = 'x' (code): is set by Holdfast" in said
    assert instead in said


@pytest.mark.parametrize(
    ("key", "same"),
    [
        ("parallelism.default", "spark.sql.shuffle.partitions"),
        ("holdfast.spark.master", "spark.master"),
    ],
)
def test_the_same_thing_is_not_said_to_spark_and_to_holdfast(key: str, same: str) -> None:
    assert f"is also said by {key}" in refusal({key: "2", same: "2"})
    assert settings({same: "2"}).spark == {same: "2"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{CHK}snapshot-compression", "False"),
        (f"{CHK}create-subdir", True),
        (f"{CHK}file-merging.max-file-size", "32768kb"),
        (f"{CHK}sync-phase-timeout", "0 ms"),
        ("execution.state-recovery.claim-mode", "NO_CLAIM"),
        ("high-availability.type", "NONE"),
        ("heartbeat.rpc-failure-threshold", 2),
    ],
)
def test_a_key_without_effect_is_accepted_where_it_asks_for_nothing(
    key: str, value: object
) -> None:
    assert settings({key: value}) == settings()


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (f"{CHK}snapshot-compression", "true", "Spark compresses"),
        (f"{CHK}create-subdir", "false", "below its id; allowed: true"),
        (f"{CHK}interval-during-backlog", "1 h", "backlog"),
        (f"{CHK}file-merging.new-thing", "1", "small ones"),
        (f"{CHK}local-backup.enabled", "yes", "query log"),
        ("high-availability.storageDir", "/ha", "comes with a later release"),
        ("state.backend.rocksdb.options-factory", "my.Factory", "does not let programs"),
        ("taskmanager.memory.process.size", "4g", "spark.*"),
    ],
)
def test_a_key_without_effect_is_refused_with_the_reason(key: str, value: str, why: str) -> None:
    said = refusal({key: value})
    assert f"{key} = {value!r} (code): not supported; " in said
    assert why in said


def test_a_key_without_effect_is_refused_from_the_environment_too() -> None:
    said = refusal(environ={"HOLDFAST_HIGH_AVAILABILITY_STORAGEDIR": "3"})
    assert "HOLDFAST_HIGH_AVAILABILITY_STORAGEDIR): not supported" in said
