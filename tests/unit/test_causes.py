from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pyspark
import pytest

from holdfast.errors import UsageError
from holdfast.protocol.causes import Cause, Classified, FailureClass, Rule, classify
from holdfast.protocol.signs import SIGNS

NON = FailureClass.NON_RECOVERABLE
MISSING = FailureClass.PARTITION_DATA_MISSING
ENVIRONMENT = FailureClass.ENVIRONMENT
RECOVERABLE = FailureClass.RECOVERABLE

SPARK = "org.apache.spark."
SOURCE = Path(__file__).parents[2] / "src" / "holdfast"
# These only wrap others, or end what is being stopped anyway.
SAY_NOTHING = {"HOLDFAST", "REGION_FAILED", "STOPPED"}
FILES = [file for file in sorted(SOURCE.rglob("*.py")) if not {"cli", "testing"} & {*file.parts}]


def stream_failed(*causes: Cause) -> list[Cause]:
    """As Spark reports a query that died: the outermost tells the text of those below."""
    text = (
        f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {causes[0].message}"
    )
    outermost = f"{SPARK}sql.streaming.StreamingQueryException"
    return [Cause(outermost, text, "STREAM_FAILED", "XXKST"), *causes]


def traceback(error: str, line: str = "return 1 / x") -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/app/job.py", line 12, in total\n    {line}\n'
        f"{error}\n"
    )


def in_worker(error: str, line: str = "return 1 / x") -> list[Cause]:
    """A user's function failed in a task."""
    text = f"[PYTHON_EXCEPTION] An exception was thrown:\n{traceback(error, line)}\nSQLSTATE: 38000"
    return stream_failed(
        Cause(f"{SPARK}SparkException", f"Job aborted: {SPARK}api.python.PythonException: {text}"),
        Cause(f"{SPARK}api.python.PythonException", text, "PYTHON_EXCEPTION", "38000"),
    )


def in_batch_function(reason: str) -> list[Cause]:
    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in "
        "foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: "
        f"{reason} SQLSTATE: 39000"
    )
    condition = "FOREACH_BATCH_USER_FUNCTION_ERROR"
    return stream_failed(Cause(f"{SPARK}SparkException", text, condition, "39000"))


def through_py4j(java: str) -> list[Cause]:
    """The function of foreachBatch called Spark, and Spark failed."""
    called = "py4j.protocol.Py4JJavaError: An error occurred while calling o71.save."
    return in_batch_function(traceback(f"{called}\n: {java}"))


def aborted(reason: str) -> list[Cause]:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times, most recent "
        f"failure: Lost task 0.3 in stage 9.0 (TID 20) (host executor 1): {reason}\n"
        "Driver stacktrace:"
    )
    return stream_failed(Cause(f"{SPARK}SparkException", text))


def kind(causes: list[Cause]) -> FailureClass:
    return classify(causes).kind


def test_a_function_that_raises_would_raise_again_and_its_error_is_named() -> None:
    found = classify(in_worker("ValueError: no such app"))
    assert (found.kind, found.why) == (NON, "the region's own function raised ValueError")


def test_a_batch_function_that_raises_is_named_too() -> None:
    found = classify(in_batch_function(traceback("shop.errors.BadRow: row 7")))
    assert (found.kind, found.why) == (NON, "the region's own function raised BadRow")


def test_lost_state_is_seen_through_the_batch_function_that_wraps_it() -> None:
    lost = (
        f"{SPARK}SparkException: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] An "
        "error occurred during loading state. Cannot read state delta file /s/0/3/7.delta. "
        "SQLSTATE: 58030"
    )
    found = classify(through_py4j(lost))
    assert found.kind is MISSING
    assert found.cause.condition == "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"


def test_a_lost_executor_is_seen_in_an_aborted_job() -> None:
    lost = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"
    found = classify(aborted(lost))
    assert (found.kind, found.why) == (ENVIRONMENT, "an executor was lost")


@pytest.mark.parametrize(
    "causes",
    [
        aborted("java.lang.OutOfMemoryError: Java heap space"),
        through_py4j("java.lang.OutOfMemoryError: GC overhead limit exceeded"),
        in_worker("MemoryError"),
        stream_failed(
            Cause(
                f"{SPARK}SparkException",
                "[CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY] no memory",
                "CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY",
            ),
            Cause("java.lang.OutOfMemoryError", "Java heap space"),
        ),
    ],
)
def test_out_of_memory_is_the_machine_s_whatever_it_is_wrapped_in(causes: list[Cause]) -> None:
    found = classify(causes)
    assert found.kind is ENVIRONMENT
    assert "memory" in found.why


def test_out_of_memory_is_called_by_its_own_name() -> None:
    wrapped = through_py4j("java.lang.OutOfMemoryError: Java heap space")
    assert classify(wrapped).why == "a process ran out of memory (OutOfMemoryError)"


@pytest.mark.parametrize(
    "causes",
    [
        in_worker("OSError: [Errno 28] No space left on device"),
        through_py4j("java.io.IOException: No space left on device"),
        through_py4j("java.io.IOException: File too large"),
        stream_failed(
            Cause(f"{SPARK}SparkException", "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] at 7"),
            Cause("java.io.IOException", "No space left on device"),
        ),
    ],
)
def test_a_full_disk_is_the_machine_s(causes: list[Cause]) -> None:
    assert classify(causes).why == "a disk is full or over its quota"


@pytest.mark.parametrize(
    "error",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x')",
        "requests.exceptions.ReadTimeout: no answer",
        "TimeoutError: timed out",
        "psycopg.OperationalError: connection to server at 127.0.0.1 failed: Connection refused",
        "pymysql.err.OperationalError: (1213, 'Deadlock found when trying to get lock')",
        "holdfast.sinks.postgres.session.PostgresFailure: cannot connect",
        "sqlite3.OperationalError: database is locked",
        "pymysql.err.OperationalError: (2013, 'Lost connection to server during query')",
    ],
)
def test_a_server_that_is_away_may_come_back_wherever_it_was_missed(error: str) -> None:
    assert kind(in_worker(error)) is RECOVERABLE
    assert kind(in_batch_function(traceback(error))) is RECOVERABLE


@pytest.mark.parametrize(
    "causes",
    [
        aborted("java.io.FileNotFoundException: File file:/w/segments/3.parquet does not exist"),
        through_py4j(
            f"{SPARK}SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while "
            "reading file file:/w/segments/3.parquet. File does not exist. SQLSTATE: KD001"
        ),
        stream_failed(Cause("java.nio.file.NoSuchFileException", "/w/regions/pv/offsets/7")),
        stream_failed(Cause("com.fasterxml.jackson.core.io.JsonEOFException", "Unexpected end")),
        stream_failed(
            Cause(
                f"{SPARK}SparkException",
                "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] inconsistent SQLSTATE: 42K03",
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
                "42K03",
            )
        ),
        [Cause("holdfast.DamagedFile", "cut short", "DAMAGED_FILE")],
        in_batch_function(traceback("holdfast.errors.MissingFile: segment is gone")),
    ],
)
def test_a_file_that_is_gone_is_only_in_a_checkpoint(causes: list[Cause]) -> None:
    assert kind(causes) is MISSING


def test_a_function_that_opens_a_missing_file_is_not_lost_state() -> None:
    missing = "FileNotFoundError: [Errno 2] No such file: 'rates.csv'"
    assert kind(in_worker(missing)) is NON
    found = classify(in_batch_function(traceback(missing)))
    assert found.kind is NON
    assert found.why == "the region's own function raised FileNotFoundError"
    assert kind([Cause("builtins.FileNotFoundError", "[Errno 2] 'rates.csv'")]) is NON


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("sqlite3.OperationalError", "no such table: orders"),
        ("sqlite3.OperationalError", "no such column: amount"),
        ("sqlite3.OperationalError", "table orders has no column named amount"),
        ("pymysql.err.OperationalError", "(1054, \"Unknown column 'amount' in 'field list'\")"),
        ("pymysql.err.ProgrammingError", "(1146, \"Table 'shop.orders' doesn't exist\")"),
        ("psycopg.errors.UndefinedTable", 'relation "orders" does not exist'),
        ("psycopg.errors.UndefinedColumn", 'column "amount" of relation "orders" does not exist'),
    ],
)
def test_a_table_or_column_that_is_not_there_does_not_come_by_trying_again(
    raised: str, message: str
) -> None:
    said = f"{raised}: {message}"
    for causes in (
        [Cause(raised, message)],
        in_worker(said),
        in_batch_function(traceback(said)),
        [Cause("holdfast.RegionFailed", "it failed", "REGION_FAILED"), Cause(raised, message)],
    ):
        found = classify(causes)
        assert found.kind is NON
        assert found.why.startswith("a database has no such table or column")


def test_a_file_that_an_executor_spilled_is_not_lost_state() -> None:
    spilled = "java.io.FileNotFoundException: /tmp/blockmgr-1/0c/shuffle_0_1 (No such file)"
    assert kind(aborted(spilled)) is ENVIRONMENT


def test_a_file_that_may_not_be_read_is_not_gone() -> None:
    denied = "java.io.FileNotFoundException: /w/regions/pv/offsets/7 (Permission denied)"
    assert kind(aborted(denied)) is NON
    assert kind(aborted("java.io.FileNotFoundException: /w/7 (Too many open files)")) is ENVIRONMENT


def test_storage_that_cannot_be_reached_has_lost_nothing() -> None:
    causes = stream_failed(
        Cause(
            f"{SPARK}SparkException",
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.",
            "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
            "58030",
        ),
        Cause("java.net.ConnectException", "Call From a to b:8020 failed: Connection refused"),
    )
    assert kind(causes) is RECOVERABLE
    assert kind(causes[:2]) is MISSING


def test_rows_that_could_not_be_fetched_after_all_retries_are_missing() -> None:
    exhausted = (
        "Job aborted due to stage failure: ShuffleMapStage 3 has failed the maximum allowable "
        f"number of times: 4. Most recent failure reason: {SPARK}shuffle.FetchFailedException: "
        "Failed to connect to host:7337"
    )
    assert kind(stream_failed(Cause(f"{SPARK}SparkException", exhausted))) is MISSING


def test_fetches_that_failed_with_their_executor_are_the_machine_s() -> None:
    dead = f"FetchFailed(...): {SPARK}ExecutorDeadException: The remote executor is dead."
    assert kind(aborted(dead)) is ENVIRONMENT


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Python worker exited unexpectedly (crashed)", ENVIRONMENT),
        (f"{SPARK}SparkException: Python worker failed to connect back.", ENVIRONMENT),
        ("java.nio.file.AccessDeniedException: /w/regions/pv", NON),
        ("java.lang.ClassNotFoundException: org.postgresql.Driver", NON),
        ("java.lang.IllegalStateException: unheard of", RECOVERABLE),
    ],
)
def test_what_a_task_died_of_is_found_in_the_text(reason: str, expected: FailureClass) -> None:
    assert kind(aborted(reason)) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", NON),
        ("STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NOT_FOUND", NON),
        ("CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE", NON),
        ("CONCURRENT_STREAM_LOG_UPDATE", NON),
        ("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", MISSING),
        ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE", MISSING),
        ("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", MISSING),
        ("STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.OFFSET_LOG", ENVIRONMENT),
        ("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", ENVIRONMENT),
        ("STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE", ENVIRONMENT),
        ("CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR", RECOVERABLE),
        ("STATE_STORE_OPERATION_OUT_OF_ORDER", RECOVERABLE),
    ],
)
def test_a_condition_says_the_same_as_data_and_as_text(
    condition: str, expected: FailureClass
) -> None:
    exception = f"{SPARK}SparkException"
    assert kind(stream_failed(Cause(exception, "it failed", condition))) is expected
    assert kind(stream_failed(Cause(exception, f"[{condition}] it failed"))) is expected
    assert kind(through_py4j(f"{exception}: [{condition}] it failed")) is expected


@pytest.mark.parametrize(
    ("sql_state", "expected"),
    [
        ("22P02", NON),
        ("42703", NON),
        ("0A000", NON),
        ("58030", ENVIRONMENT),
        ("08001", RECOVERABLE),
    ],
)
def test_an_unknown_condition_is_judged_by_its_sqlstate(
    sql_state: str, expected: FailureClass
) -> None:
    cause = Cause(f"{SPARK}SparkException", "it failed", "UNHEARD_OF", sql_state)
    assert kind(stream_failed(cause)) is expected
    assert kind(aborted(f"x: [UNHEARD_OF] it failed SQLSTATE: {sql_state}")) is expected


def test_a_spark_job_that_fails_inside_a_batch_for_no_known_reason_is_nobody_s_fault() -> None:
    assert kind(through_py4j(f"{SPARK}SparkException: Job aborted.")) is RECOVERABLE


KAFKA = f"{SPARK}sql.kafka010.KafkaIllegalStateException"
LOST = (
    "Some data may have been lost because they are not available in Kafka any more;\n"
    "either the data was aged out by Kafka or the topic may have been deleted before all the data "
    "in the\ntopic was processed.\nIf you don't want your streaming query to fail on such cases, "
    "set the source option failOnDataLoss to false.\nReason:\n"
)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "Could not read records in offset [3, 50) for topic partition clicks-1\n"
            "with consumer group spark-kafka-source-1.",
            ["clicks-1", "offset 3 to 50", "retention"],
        ),
        (
            "Partition clicks-0 offset was changed from 50 to 7.\nThis could either be a user "
            "error that the start offset is set too high.",
            ["clicks-0", "up to offset 50", "ends at 7", "created again"],
        ),
        (
            "Starting offset for clicks-0 was 3 but consumer reset to 40.",
            ["clicks-0", "from offset 3", "begins at 40"],
        ),
        ("Added partition clicks-4 starts from 9 instead of 0.", ["clicks-4", "before offset 9"]),
        ("Partitions Set(clicks-1, clicks-2) have been deleted.", ["clicks-1, clicks-2"]),
        (
            "Cannot find initial offsets for partitions Set(clicks-3). They may have been deleted.",
            ["clicks-3"],
        ),
        ("Something new.", ["records that were not read yet are gone from Kafka"]),
    ],
)
def test_rows_that_kafka_has_lost_are_missing_and_named_wherever_it_was_noticed(
    reason: str, told: list[str]
) -> None:
    on_driver = stream_failed(Cause(KAFKA, LOST + reason, "KAFKA_DATA_LOSS.SOME", "22000"))
    in_task = aborted(f"{KAFKA}: {LOST}{reason}\n\tat org.apache.spark.Some.method(Some.scala:1)")
    for causes in (on_driver, in_task, through_py4j(f"{KAFKA}: {LOST}{reason}")):
        found = classify(causes)
        assert found.kind is MISSING
        assert found.outside
        for part in told:
            assert part in found.why


def test_a_topic_that_was_replaced_is_told_in_the_words_of_the_source() -> None:
    raised = "holdfast.sources.kafka.source.KafkaDataLost: topic clicks is gone [source=c]"
    for causes in (
        [Cause("holdfast.KafkaDataLost", "topic clicks is gone", "KAFKA_DATA_LOST")],
        stream_failed(Cause("py4j.Py4JException", f"Return Message: {traceback(raised)}")),
    ):
        found = classify(causes)
        assert (found.kind, found.outside) == (MISSING, True)
        assert found.why.startswith("topic clicks is gone")


def test_a_topic_that_a_broker_does_not_know_may_only_be_new_to_it() -> None:
    """Its id tells at the restart whether it is gone."""
    name = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    causes = stream_failed(Cause("java.util.concurrent.ExecutionException", f"{name}: no"))
    found = classify([*causes, Cause(name, "no")])
    assert (found.kind, found.outside) == (RECOVERABLE, False)
    assert kind(causes) is RECOVERABLE


def test_a_checkpoint_may_have_what_is_not_kafkas() -> None:
    assert not classify([Cause("holdfast.DamagedFile", "cut short", "DAMAGED_FILE")]).outside


def test_starts_that_do_not_fit_the_partitions_never_will() -> None:
    text = (
        "assertion failed: If startingOffsets contains specific offsets, you must specify all "
        "TopicPartitions.\nUse -1 for latest"
    )
    found = classify(stream_failed(Cause("java.lang.AssertionError", text)))
    assert (found.kind, "every partition" in found.why) == (NON, True)


def test_a_broker_that_does_not_answer_has_lost_nothing() -> None:
    text = "org.apache.kafka.common.errors.TimeoutException: Call(callName=listOffsets) timed out"
    assert (
        kind(stream_failed(Cause("java.util.concurrent.ExecutionException", text))) is RECOVERABLE
    )


def test_source_code_in_a_traceback_tells_nothing() -> None:
    line = 'raise ValueError("x")  # No space left on device, [CONCURRENT_STREAM_LOG_UPDATE]'
    assert classify(in_worker("ValueError: x", line)).why.endswith("raised ValueError")


def test_what_nothing_is_known_about_can_be_recovered_from() -> None:
    assert kind([]) is RECOVERABLE
    found = classify(stream_failed(Cause(f"{SPARK}SparkException", "Job aborted.")))
    assert found.kind is RECOVERABLE
    assert found.why == "no cause says that a restart cannot help"


@pytest.mark.parametrize(
    "rule",
    [
        Rule(ENVIRONMENT, type="ValueError"),
        Rule(ENVIRONMENT, type="*Error"),
        Rule(ENVIRONMENT, type=f"{SPARK}api.python.*"),
        Rule(ENVIRONMENT, condition="PYTHON_EXCEPTION"),
        Rule(ENVIRONMENT, text=r"no such \w+$"),
        Rule(ENVIRONMENT, type="ValueError", text="app"),
        Rule(ENVIRONMENT, type="PythonException", condition="PYTHON_EXCEPTION", text="no such app"),
    ],
)
def test_the_user_s_rules_come_first(rule: Rule) -> None:
    assert kind(in_worker("ValueError: no such app")) is NON
    assert classify(in_worker("ValueError: no such app"), [rule]).kind is ENVIRONMENT


@pytest.mark.parametrize(
    "rule",
    [
        Rule(ENVIRONMENT, type="Value"),
        Rule(ENVIRONMENT, condition="PYTHON"),
        Rule(ENVIRONMENT, type="ValueError", text="other"),
        Rule(ENVIRONMENT, type="ValueError", condition="PYTHON_EXCEPTION"),
    ],
)
def test_all_parts_of_a_rule_must_apply_to_one_cause(rule: Rule) -> None:
    assert classify(in_worker("ValueError: no such app"), [rule]).kind is NON


def test_of_several_rules_the_first_that_applies_wins_and_says_why() -> None:
    rules = [
        Rule(ENVIRONMENT, type="KeyError"),
        Rule(RECOVERABLE, type="ValueError", why="the feed heals itself"),
        Rule(ENVIRONMENT, type="ValueError"),
    ]
    found = classify(in_worker("ValueError: x"), rules)
    assert found == Classified(RECOVERABLE, "the feed heals itself", Cause("ValueError", "x"))


def test_a_rule_for_a_condition_may_mean_all_below_it() -> None:
    rule = Rule(RECOVERABLE, condition="CANNOT_LOAD_STATE_STORE.*")
    for condition in ("CANNOT_LOAD_STATE_STORE", "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"):
        assert classify([Cause("x", condition=condition)], [rule]).kind is RECOVERABLE
    assert classify([Cause("x", condition="CANNOT_LOAD_STATE_STORES")], [rule]).why.startswith("no")


def test_a_rule_that_says_nothing_or_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="says nothing"):
        Rule(RECOVERABLE)
    with pytest.raises(UsageError, match="no regular expression"):
        Rule(RECOVERABLE, text="(")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_error_of_holdfast_has_a_class_by_its_code_and_by_its_name(file: Path) -> None:
    pattern = r'^class (\w+)\(\w+\):\n(?:.*\n){1,6}?    code(?:: ClassVar\[str\])? = "(\w+)"'
    for name, code in re.findall(pattern, file.read_text(), re.MULTILINE):
        if code in SAY_NOTHING:
            continue
        by_code = classify([Cause(f"holdfast.{name}", "x", code)])
        assert "no cause says" not in by_code.why, f"signs.py does not know {code}"
        assert classify([Cause(f"holdfast.some.{name}", "x")]).kind is by_code.kind, name
        assert classify([Cause("holdfast.Unknown", "x", code)]).kind is by_code.kind, code


def test_all_conditions_in_the_table_are_sparks_or_ours() -> None:
    known = {
        code
        for file in SOURCE.rglob("*.py")
        for code in re.findall(r'^    code = "(\w+)"', file.read_text(), re.MULTILINE)
    }
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        sparks = json.loads(archive.read("error/error-conditions.json"))
    known |= sparks.keys()
    known |= {f"{name}.{below}" for name in sparks for below in sparks[name].get("subClass", {})}
    named = [condition for sign in SIGNS for condition in sign.conditions]
    assert [name for name in named if name.removesuffix(".*") not in known] == []
    assert len(set(named)) == len(named)


def test_every_sign_has_a_reason_in_words() -> None:
    for sign in SIGNS:
        for text in sign.texts or ("",):
            assert sign.why.format(raised="X", said="Y", **re.compile(text).groupindex)
        assert sign.types or sign.conditions or sign.texts or sign.states
