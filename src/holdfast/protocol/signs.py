"""What failures look like, the most telling first: the table behind ``causes``.

A failure arrives as a chain of wrappers, and a wrapper says little: the function of foreachBatch,
which is also how Holdfast writes, wraps lost state and lost executors alike. So the order is by how
much a sign says, not by how deep it lies: what was decided, what the machine did, what is certainly
gone, what cannot change, what passes, and only then whose function it went through.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.settings import FailureClass


@dataclass(frozen=True, slots=True)
class Sign:
    """Any of these in any cause tells the class.

    ``types`` and ``conditions`` are as in a ``Rule``, ``texts`` are regular expressions in any
    case, ``states`` are beginnings of an SQLSTATE. ``{raised}`` in ``why`` is the exception's name,
    ``{said}`` the first line of what it says, and a group of a text has the name it has there.
    """

    kind: FailureClass
    why: str
    types: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    outside: bool = False
    """What is missing was never ours: no checkpoint has it."""
    others: bool = False
    """Somebody else has written where only the job may."""


def _holdfast(*names: str) -> tuple[str, ...]:
    """Our own errors come with a code, or by name in the text of a traceback."""
    return tuple(f"holdfast.{module}{name}" for name in names for module in ("", "*."))


_NON = FailureClass.NON_RECOVERABLE
_MISSING = FailureClass.PARTITION_DATA_MISSING
_ENVIRONMENT = FailureClass.ENVIRONMENT
_RECOVERABLE = FailureClass.RECOVERABLE

_DECIDED = (
    Sign(
        _NON,
        "another runner has this job, or writes to its files",
        types=_holdfast("AlreadyPublished", "AlreadyRunning", "Fenced"),
        conditions=(
            "ALREADY_PUBLISHED",
            "ALREADY_RUNNING",
            "CONCURRENT_QUERY",
            "CONCURRENT_STREAM_LOG_UPDATE",
            "FENCED",
        ),
        others=True,
    ),
    Sign(
        _NON,
        "the job has been given up",
        types=_holdfast("NotRestarted", "NothingToRestore", "RunnerLost"),
        conditions=("NOTHING_TO_RESTORE", "NOT_RESTARTED", "RUNNER_LOST"),
    ),
)

_MACHINE = (
    Sign(
        _ENVIRONMENT,
        "a process ran out of memory ({raised})",
        types=("*OutOfMemoryError", "MemoryError", "ArrowMemoryError"),
        conditions=(
            "AGGREGATE_OUT_OF_MEMORY",
            "CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY",
            "CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY",
            "POINTER_ARRAY_OUT_OF_MEMORY",
            "SPILL_OUT_OF_MEMORY",
            "UNABLE_TO_ACQUIRE_MEMORY",
        ),
        texts=(
            r"\bOutOfMemoryError\b",
            r"cannot allocate memory",
            r"running beyond (physical|virtual) memory limits",
        ),
    ),
    Sign(
        _ENVIRONMENT,
        "a disk is full or over its quota",
        types=("*QuotaExceededException", "DiskOutOfSpaceException"),
        texts=(r"no space left on device", r"disk quota exceeded", r"file too large"),
    ),
    Sign(
        _ENVIRONMENT,
        "a machine or its disk refused",
        texts=(
            r"input/output error",
            r"too many open files",
            r"read-only file system",
            r"stale file handle",
            # What an executor spills is computed again; it is no file that a checkpoint has.
            r"/blockmgr-",
        ),
    ),
    Sign(
        _ENVIRONMENT,
        "an executor was lost",
        types=("ExecutorDeadException", "ExecutorLostFailure"),
        texts=(r"\bExecutorLostFailure\b", r"\bExecutorDeadException\b"),
    ),
    Sign(
        _ENVIRONMENT,
        "a Python worker died or did not start",
        conditions=(
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",
        ),
        texts=(
            r"python worker exited unexpectedly",
            r"python worker failed to connect back",
        ),
    ),
    Sign(
        _ENVIRONMENT,
        "Spark's JVM is gone or was shut down",
        types=("Py4JNetworkError", *_holdfast("JvmLost")),
        conditions=("JVM_LOST",),
        texts=(
            r"sparkcontext (was|has been) shut ?down",
            r"stopped sparkcontext",
            r"answer from java side is empty",
        ),
    ),
)

_REFUSALS = (
    Sign(
        _NON,
        "access was denied",
        types=(
            "AccessControlException",
            "AccessDeniedException",
            "*AuthenticationException",
            "*AuthorizationException",
            "InsufficientPrivilege",
            "PermissionDenied*",
            "PermissionError",
        ),
        texts=(
            r"permission denied",
            r"access ?denied",
            r"authentication failed",
            r"\bInvalidAccessKeyId\b",
            r"\bSignatureDoesNotMatch\b",
        ),
        states=("28",),
    ),
)

_GONE = (
    Sign(
        _MISSING,
        "a file of a query log, a channel or a state is gone or damaged",
        types=(
            "ChecksumException",
            "FileNotFoundException",
            "JsonEOFException",  # an offset log that was cut short; rows of a job are not so read
            "NoSuchFileException",
            *_holdfast("DamagedFile", "FileMissing", "MissingFile", "NotAQueryLog"),
            *_holdfast("NotRestorable", "QueryLogError"),
        ),
        conditions=(
            "BATCH_METADATA_NOT_FOUND",
            "CANNOT_LOAD_STATE_STORE.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT",
            "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
            "CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE",
            "CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE",
            "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
            "DAMAGED_FILE",
            "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER",
            "FAILED_READ_FILE.FILE_NOT_EXIST",
            "FILE_MISSING",
            "MALFORMED_LOG_FILE",
            "MISSING_FILE",
            "NOT_A_QUERY_LOG",
            "NOT_RESTORABLE",
            "QUERY_LOG",
            "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
            "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        ),
        texts=(r"is not a parquet file",),
    ),
    Sign(
        _MISSING,
        "shuffled rows were lost again and again, though Spark computed them anew",
        types=("FetchFailedException", "MetadataFetchFailedException"),
        conditions=("STREAMING_SHUFFLE_CHECKSUM_VERIFICATION_FAILED",),
        texts=(r"\bFetchFailed\b", r"failed the maximum allowable number of times"),
    ),
)


def _gone_from_kafka(why: str, *texts: str) -> Sign:
    """No conditions: of Spark's, a failed task tells only the text."""
    return Sign(_MISSING, why, texts=texts, outside=True)


_KAFKA = (
    Sign(
        _MISSING,
        "{said}",
        types=_holdfast("KafkaDataLost"),
        conditions=("KAFKA_DATA_LOST",),
        outside=True,
    ),
    _gone_from_kafka(
        "Kafka has lost records of {partition} before they were read, somewhere from offset "
        "{first} to {behind}: retention has removed them",
        r"could not read records in offset \[(?P<first>\d+), (?P<behind>\d+)\) for topic partition "
        r"(?P<partition>\S+)",
    ),
    _gone_from_kafka(
        "Kafka's {partition} was read up to offset {first} and now ends at {behind}: the topic was "
        "deleted and created again, or cut off",
        r"partition (?P<partition>\S+) offset was changed from (?P<first>\d+) to (?P<behind>\d+)",
    ),
    _gone_from_kafka(
        "Kafka's {partition} was to be read from offset {first} and begins at {behind}: retention "
        "has removed what is missing",
        r"starting offset for (?P<partition>\S+) was (?P<first>\d+) but consumer reset to "
        r"(?P<behind>\d+)",
    ),
    _gone_from_kafka(
        "Kafka's {partition} is new, and its records before offset {first} were removed unread",
        r"added partition (?P<partition>\S+) starts from (?P<first>\d+) instead of 0",
    ),
    _gone_from_kafka(
        "partitions that were not read to their end are gone from Kafka: {partitions}",
        r"partitions (?:Hash)?Set\((?P<partitions>[^)]*)\) have been deleted",
        r"cannot find initial offsets for partitions (?:Hash)?Set\((?P<partitions>[^)]*)\)",
    ),
    _gone_from_kafka(
        "records that were not read yet are gone from Kafka",
        r"may have been lost because they are not available in Kafka any more",
        r"partitions in Kafka topic\(s\) have been lost",
        r"partitions in Kafka topic\(s\) report available offset which is less",
    ),
)

_UNFIT = (
    Sign(
        _NON,
        "start must name every partition of the Kafka topics, and no other",
        texts=(
            r"you must specify all TopicPartitions",
            r"partitions specified for Kafka start offsets don't match what are assigned",
        ),
    ),
    Sign(
        _NON,
        "the state does not fit the job: its schema, its format or a setting was changed",
        types=_holdfast("UnknownFormat"),
        conditions=(
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_WRITER_VERSION",
            "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "INVALID_LOG_VERSION.*",
            "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_PROVIDER",
            "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            "STREAMING_QUERY_EVOLUTION_ERROR.*",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
            "UNKNOWN_FORMAT",
        ),
    ),
    Sign(
        _NON,
        "a class or a module is missing",
        types=(
            "ClassNotFoundException",
            "ImportError",
            "ModuleNotFoundError",
            "NoClassDefFoundError",
            "NoSuchMethodError",
        ),
    ),
    Sign(
        # Before the servers that are away: drivers have one exception for both.
        _NON,
        "a database has no such table or column ({raised})",
        types=("UndefinedColumn", "UndefinedTable"),
        texts=(
            r"\bno such (table|column): ",
            r"\bhas no column named ",
            # MariaDB's and MySQL's numbers for the same, as their driver shows them.
            r"error: \((1054|1146), ",
            r"^\((1054|1146), ",
        ),
    ),
    Sign(
        _NON,
        "Holdfast was asked for something that cannot be ({raised})",
        types=(
            *_holdfast("AlreadyEnded", "DestinationExists", "JobError", "KafkaRefused"),
            *_holdfast("MarkersLost", "MySqlRefused", "NoConnector", "NoJava", "ScriptFailed"),
            *_holdfast("SettingsError", "SinkLost", "TooLarge", "UsageError"),
        ),
        conditions=(
            "ALREADY_ENDED",
            "DESTINATION_EXISTS",
            "JOB",
            "KAFKA_REFUSED",
            "MARKERS_LOST",
            "MYSQL_REFUSED",
            "NO_CONNECTOR",
            "NO_JAVA",
            "SCRIPT_FAILED",
            "SETTINGS",
            "SINK_LOST",
            "SNAPSHOT_TOO_LARGE",
            "USAGE",
        ),
    ),
)

_PASSING = (
    Sign(
        _RECOVERABLE,
        "a server could not be reached or did not answer ({raised})",
        types=(
            "*TimeoutError",
            "*TimeoutException",
            "*Timeout",
            "BrokenPipeError",
            "CommunicationsException",
            "Connect*Error",
            "ConnectException",
            "DisconnectException",
            "InterfaceError",
            "NoRouteToHostException",
            "NotLeaderOrFollowerException",
            "OperationalError",
            "RetriableException",
            "SQLRecoverableException",
            "SQLTransient*",
            "SafeModeException",
            "SocketException",
            "UnknownHostException",
            "gaierror",
            *_holdfast("KafkaFenced", "KafkaUnavailable", "MySqlUnavailable", "PostgresFailure"),
        ),
        conditions=("KAFKA_FENCED", "KAFKA_UNAVAILABLE", "MYSQL_UNAVAILABLE", "POSTGRES"),
        texts=(
            r"\bconnect(ion)? (was )?(refused|reset|closed|aborted|timed out)",
            r"\b(read|request|operation) timed out",
            r"\bbroken pipe\b",
            r"\bname or service not known\b",
            r"\btemporary failure in name resolution\b",
            r"\bno route to host\b",
            r"\bnetwork is unreachable\b",
            r"\bservice ?unavailable\b",
            r"\bdeadlock\b",
            r"\block wait timeout\b",
        ),
        states=("08", "40", "57"),
    ),
    Sign(
        # Brokers say so for moments, after a start or while a topic is being made. Whether it is
        # really gone is seen at the restart, by its id.
        _RECOVERABLE,
        "Kafka does not know a topic or partition that is read ({raised})",
        types=("UnknownTopicOrPartitionException", "UnknownTopicIdException"),
    ),
    Sign(
        _RECOVERABLE,
        "another task still held the state",
        conditions=("CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR",),
    ),
)

_GENERAL = (
    Sign(
        _MISSING,
        "a file of a query log, a channel or a state cannot be read",
        conditions=("CANNOT_LOAD_STATE_STORE.*", "FAILED_READ_FILE.NO_HINT"),
    ),
    Sign(
        _ENVIRONMENT,
        "state or a log could not be written",
        conditions=(
            "CANNOT_WRITE_STATE_STORE.*",
            "FAILED_RENAME_TEMP_FILE",
            "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.*",
        ),
    ),
    Sign(
        _RECOVERABLE,
        "a file system refused ({raised})",
        types=("OSError", *_holdfast("StorageError", "CheckpointFailed", "GivenUp")),
        conditions=("CHECKPOINT_FAILED", "CHECKPOINT_GIVEN_UP", "STORAGE"),
    ),
    Sign(
        _ENVIRONMENT,
        "this machine lacks something",
        types=_holdfast("EnvironmentProblem", "JvmRemains"),
        conditions=("ENVIRONMENT", "JVM_REMAINS"),
    ),
)

_JOBS_OWN = (
    Sign(
        _NON,
        "the region's own function raised {raised}",
        conditions=(
            "FAILED_EXECUTE_UDF",
            "FLATMAPGROUPSWITHSTATE_USER_FUNCTION_ERROR",
            "FOREACH_USER_FUNCTION_ERROR",
            "PYTHON_DATA_SOURCE_ERROR",
            "PYTHON_EXCEPTION",
            "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
            "TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR",
        ),
        texts=(r"\bapi\.python\.PythonException\b",),
        # Not 39: foreachBatch has it too, whatever it wraps.
        states=("38",),
    ),
    Sign(
        _NON,
        "the query cannot be run, or not on these rows ({raised})",
        types=("AnalysisException", "ParseException"),
        conditions=(
            "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            "FAILED_READ_FILE.UNSUPPORTED_FILE_SYSTEM",
        ),
        states=("07", "0A", "21", "22", "23", "24", "2B", "42", "46", "54", "P0"),
    ),
    Sign(
        _ENVIRONMENT,
        "a machine had too little of something",
        states=("53", "58", "82"),
    ),
    Sign(
        _RECOVERABLE,
        "a Spark job inside a batch failed, and no cause says why",
        types=("Py4JError", "Py4JJavaError"),
    ),
    Sign(
        _NON,
        "the region's own function raised {raised}",
        conditions=("FOREACH_BATCH_USER_FUNCTION_ERROR",),
    ),
    Sign(
        _NON,
        "Python raised {raised}, which a restart does not mend",
        types=(
            "AssertionError",
            "AttributeError",
            # Of the job's own code: Holdfast's storage and Spark have other names for it.
            "FileNotFoundError",
            "IndexError",
            "KeyError",
            "NameError",
            "NotImplementedError",
            "PicklingError",
            "RecursionError",
            "SyntaxError",
            "TypeError",
            "UnboundLocalError",
            "UnicodeDecodeError",
            "ValueError",
            "ZeroDivisionError",
        ),
    ),
)

SIGNS = (
    *(*_DECIDED, *_MACHINE, *_REFUSALS, *_KAFKA, *_GONE, *_UNFIT),
    *(*_PASSING, *_GENERAL, *_JOBS_OWN),
)
