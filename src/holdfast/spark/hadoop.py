"""Hadoop's file systems, reached through Spark's JVM: HDFS and whatever else Spark has a jar for.

Thin on purpose. Every call into the JVM costs a fraction of a millisecond, and bytes that come to
Python travel as base64. So copies stay inside the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from holdfast.errors import EnvironmentProblem, FileMissing, StorageError, UsageError
from holdfast.spark.jvm_errors import explained, name_is_taken
from holdfast.spark.session import local_session

_CHUNK = 8 << 20
_BUFFER = 1 << 16


class Status(NamedTuple):
    """One file or directory, with its full path as the file system writes it."""

    path: str
    size: int
    modified: float


class HadoopFiles:
    """The file system that is responsible for one URI. Paths are full URIs.

    What is not there raises ``FileMissing``; whatever else goes wrong raises ``StorageError``.
    """

    def __init__(self, uri: str) -> None:
        spark = local_session("holdfast")
        if not hasattr(spark, "_jvm"):
            raise EnvironmentProblem(
                "this Spark session has no JVM of its own (Spark Connect)",
                hint="Run where a classic Spark session can be made.",
                uri=uri,
            )
        self._gateway: Any = spark.sparkContext._gateway
        self._hadoop: Any = spark._jvm.org.apache.hadoop
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._java_path: Callable[[str], Any] = self._hadoop.fs.Path
        with explained("open", uri):
            self._fs: Any = self._path(uri).getFileSystem(self._conf)
            self.uri: str = self._fs.makeQualified(self._path(uri)).toString()

    def _path(self, uri: str) -> Any:
        # Hadoop finds hdfs://host:port invalid; to a path, a slash at the end means nothing.
        return self._java_path(f"{uri}/")

    def files_below(self, directory: str) -> Iterator[Status]:
        """Every file below a directory; nothing if that is not there or is a file."""
        if not self.is_directory(directory):
            return
        with explained("list", directory):
            files = self._fs.listFiles(self._path(directory), True)
            while files.hasNext():
                yield _status(files.next())

    def entries_of(self, directory: str) -> Iterator[Status]:
        """The files and directories that are directly in a directory."""
        if not self.is_directory(directory):
            return
        with explained("list", directory):
            yield from map(_status, self._fs.listStatus(self._path(directory)))

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return self._found(path) is not None

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there."""
        found = self._found(path)
        return found is not None and bool(found.isDirectory())

    def _found(self, path: str) -> Any | None:
        with suppress(FileMissing), explained("read", path):
            return self._fs.getFileStatus(self._path(path))
        return None

    def chunks(self, path: str) -> Generator[bytes]:
        """The bytes of a file, piece by piece. It is opened at once; close what you get."""
        with explained("read", path):
            stream = self._fs.open(self._path(path))
        return self._chunks(stream, path)

    def _chunks(self, stream: Any, path: str) -> Generator[bytes]:
        try:
            with explained("read", path):
                while chunk := bytes(stream.readNBytes(_CHUNK)):
                    yield chunk
        finally:
            stream.close()

    def make_directory(self, path: str) -> None:
        """Create a directory with its missing parents."""
        with explained("create", path):
            if not self._fs.mkdirs(self._path(path)):
                raise StorageError("cannot create the directory", path=path)

    def create(self, path: str, chunks: Iterable[bytes]) -> int:
        """Write a file that must not exist, durably; returns its size."""

        def write(out: Any) -> None:
            for chunk in chunks:
                out.write(chunk)

        return self._create(path, write)

    def copy_from(self, source: HadoopFiles, path: str, to: str) -> int:
        """Create a copy of a file that Hadoop can read."""
        with explained("read", path):
            stream = source._fs.open(source._path(path))
        return self._create_from(stream, to)

    def copy_from_disk(self, path: str, to: str) -> int:
        """Create a copy of a file on this machine's disk."""
        # Not by Hadoop's own local file system: it wants checksum files beside the file.
        with explained("read", path):
            stream = self._gateway.jvm.java.io.FileInputStream(path)
        return self._create_from(stream, to)

    def _create_from(self, stream: Any, to: str) -> int:
        copy_bytes = self._hadoop.io.IOUtils.copyBytes
        try:
            return self._create(to, lambda out: copy_bytes(stream, out, _BUFFER, False))
        finally:
            stream.close()

    def _create(self, path: str, write: Callable[[Any], None]) -> int:
        with explained("write", path):
            out = self._open_new(path)
            try:
                write(out)
                if out.hasCapability("hsync"):
                    out.hsync()
                size = int(out.getPos())
                out.close()
            except BaseException:
                self._abandon(out, path)
                raise
            return size

    def _abandon(self, out: Any, path: str) -> None:
        with suppress(Exception):  # the first error is the one to report
            out.close()
        with suppress(Exception):
            self._fs.delete(self._path(path), False)

    def _open_new(self, path: str) -> Any:
        place, fs = self._path(path), self._fs
        flags = self._hadoop.fs.CreateFlag
        return fs.create(
            place,
            self._new_file_permission,
            # Without SYNC_BLOCK only the last block of a file would survive a power cut.
            self._gateway.jvm.java.util.EnumSet.of(flags.CREATE, flags.SYNC_BLOCK),
            _BUFFER,
            fs.getDefaultReplication(place),
            fs.getDefaultBlockSize(place),
            None,
        )

    def rename_new(self, path: str, to: str) -> bool:
        """Give a file or directory a name, in one step; ``False`` if the name is taken."""
        # FileSystem.rename would move a directory *into* one that exists.
        try:
            with explained("create", to):
                self._context.rename(self._path(path), self._path(to), self._no_options)
        except StorageError as error:
            if name_is_taken(error):
                return False
            raise
        return True

    def delete(self, path: str) -> bool:
        """Remove a file, or a directory with all that is in it; ``False`` if it is not there."""
        with explained("delete", path):
            return bool(self._fs.delete(self._path(path), True))

    @cached_property
    def _context(self) -> Any:
        return self._hadoop.fs.FileContext.getFileContext(self._fs.getUri(), self._conf)

    @cached_property
    def _no_options(self) -> Any:
        return self._gateway.new_array(self._hadoop.fs.Options.Rename, 0)

    @cached_property
    def _new_file_permission(self) -> Any:
        permission = self._hadoop.fs.permission.FsPermission
        return permission.getFileDefault().applyUMask(permission.getUMask(self._conf))


def hadoop_knows(uri: str) -> bool:
    """Whether this Spark has a client for the URI's file system."""
    try:
        HadoopFiles(uri)
    except (StorageError, UsageError):
        return False
    return True


def _status(found: Any) -> Status:
    return Status(
        found.getPath().toString(), int(found.getLen()), found.getModificationTime() / 1000
    )
