"""What goes wrong inside the JVM, in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from holdfast.errors import FileMissing, StorageError, UsageError

_NOT_THERE = {"FileNotFoundException", "NoSuchFileException", "ParentNotDirectoryException"}
_TAKEN = {"FileAlreadyExistsException", "PathExistsException"}
_HINTS = {
    "AccessControlException": "Check the user (HADOOP_USER_NAME) and the permissions.",
    "ConnectException": "Check the host and port, and that the server is running.",
    "UnknownHostException": "Check the host name.",
    "SafeModeException": "The NameNode is in safe mode. Wait, or ask its operator.",
    "DSQuotaExceededException": "Raise the quota of the directory or free some space.",
}


@contextmanager
def explained(doing: str, path: str) -> Iterator[None]:
    """Turn a Java exception into ``FileMissing``, ``UsageError`` or ``StorageError``."""
    try:
        yield
    except Py4JJavaError as error:
        raise _translated(error, doing, path) from error
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise StorageError(f"cannot {doing}: {_brief(str(error))}", path=path) from error


def name_is_taken(error: StorageError) -> bool:
    """Whether the Java exception behind an error says that a file or directory is there."""
    cause = error.__cause__
    return isinstance(cause, Py4JJavaError) and _kind(cause) in _TAKEN


def _translated(error: Py4JJavaError, doing: str, path: str) -> Exception:
    kind = _kind(error)
    reason = _brief(error.java_exception.getMessage() or kind)
    # HDFS speaks of access when a part of the path is a file.
    if kind in _NOT_THERE or reason.endswith("(is not a directory)"):
        return FileMissing("there is no such file", path=path)
    if kind == "UnsupportedFileSystemException":
        return UsageError(
            f"Spark knows no such file system: {reason}",
            hint="Check the scheme. If it is right, add its jar to Spark (spark.jars.packages).",
            path=path,
        )
    return StorageError(f"cannot {doing}: {reason}", hint=_HINTS.get(kind), path=path)


def _kind(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())


def _brief(text: str) -> str:
    return text.strip().partition("\n")[0]
