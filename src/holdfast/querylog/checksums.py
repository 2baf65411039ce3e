"""Checksums that lie beside files: Spark's (``x.crc``, JSON) and Hadoop's (``.x.crc``, binary).

Spark's exist for state files in format 2 and cover the whole file. Hadoop's exist on local disk,
beside everything Spark wrote, and cover 512 bytes each; Spark refuses a file that disagrees.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import google_crc32c

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.querylog.textfile import parse_object, to_json

_HADOOP_HEADER = struct.Struct(">4si")
_HADOOP_MAGIC = b"crc\0"
_HADOOP_CHUNK = 512


def spark_checksum_path(path: str) -> str:
    """Where Spark's checksum of ``path`` lies."""
    return f"{path}.crc"


def hadoop_checksum_path(path: str) -> str:
    """Where Hadoop's checksum of ``path`` lies."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc" if folder else f".{name}.crc"


@dataclass(frozen=True, slots=True)
class SparkChecksum:
    """CRC-32C and size of one state file."""

    crc32c: int
    size: int


def decode_spark_checksum(data: bytes, path: str) -> SparkChecksum:
    """One ``x.crc`` file."""
    try:
        item = parse_object(data.decode("utf-8"), path)
        algorithm, value, size = item["algorithm"], int(item["value"]), int(item["mainFileSize"])
    except (UnicodeError, KeyError, TypeError, ValueError) as cause:
        raise DamagedFile("file is not one of Spark's checksums", path=path) from cause
    if algorithm != "CRC32C":
        raise UnknownFormat(f"checksum algorithm {algorithm!r} is not known", path=path)
    return SparkChecksum(value & 0xFFFFFFFF, size)


def encode_spark_checksum(checksum: SparkChecksum, timestamp_ms: int) -> bytes:
    """A file that Spark accepts beside the one it describes."""
    signed = checksum.crc32c - (1 << 32) if checksum.crc32c >= 1 << 31 else checksum.crc32c
    item = {
        "algorithm": "CRC32C",
        "value": signed,
        "mainFileSize": checksum.size,
        "timestampMs": timestamp_ms,
        "creator": {"executorId": "holdfast", "taskInfo": ""},
    }
    return to_json(item).encode()


def crc32c(data: bytes) -> int:
    """CRC-32C of a whole file."""
    return int(google_crc32c.value(data))


def check_spark(data: bytes, checksum: SparkChecksum, path: str) -> None:
    """Raise ``DamagedFile`` unless ``data`` is what Spark wrote."""
    if len(data) != checksum.size:
        raise DamagedFile(
            "file has another size than when Spark wrote it",
            path=path,
            expected=checksum.size,
            found=len(data),
        )
    if crc32c(data) != checksum.crc32c:
        raise DamagedFile("file was altered: Spark's checksum does not fit", path=path)


def encode_hadoop_checksum(data: bytes) -> bytes:
    """A ``.x.crc`` file for ``data``."""
    return _HADOOP_HEADER.pack(_HADOOP_MAGIC, _HADOOP_CHUNK) + _chunk_sums(data, _HADOOP_CHUNK)


def check_hadoop(data: bytes, checksum: bytes, path: str) -> None:
    """Raise ``DamagedFile`` unless ``data`` is what Hadoop's client wrote."""
    try:
        magic, chunk = _HADOOP_HEADER.unpack_from(checksum)
    except struct.error:
        magic, chunk = b"", 0
    if magic != _HADOOP_MAGIC or chunk <= 0:
        raise DamagedFile("file is not one of Hadoop's checksums", path=hadoop_checksum_path(path))
    if _chunk_sums(data, chunk) != checksum[_HADOOP_HEADER.size :]:
        raise DamagedFile("file was altered: Hadoop's checksum does not fit", path=path)


def _chunk_sums(data: bytes, chunk: int) -> bytes:
    view, crc = memoryview(data), zlib.crc32
    sums = [crc(view[at : at + chunk]) for at in range(0, len(data), chunk)]
    return struct.pack(f">{len(sums)}I", *sums)
