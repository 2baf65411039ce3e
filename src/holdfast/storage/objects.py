"""Files in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.

Settings come from the environment under the names that each store's own tools use:
``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``GOOGLE_APPLICATION_CREDENTIALS``,
``AZURE_STORAGE_ACCOUNT_NAME`` and so on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from holdfast.errors import AlreadyPublished, FileMissing, StorageError, UsageError
from holdfast.storage.interface import FileInfo
from holdfast.storage.names import checked, is_unfinished
from holdfast.storage.streams import stream_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_CHUNK = 8 << 20
# The library's own limits let a mistyped endpoint hang for three minutes.
_RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}


class ObjectStorage:
    """The objects below one prefix. A prefix is not a thing: it is there when an object is."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        scheme, _, rest = self._uri.partition("://")
        bucket, _, prefix = rest.partition("/")
        if not bucket:
            raise UsageError("the URI names no bucket", hint=f"{scheme}://BUCKET/PATH", uri=uri)
        scheme = scheme.lower()
        self.root = f"{_SAME_STORE.get(scheme, scheme)}://{bucket}"
        """The store as a whole: within one root, objects are copied by the server."""
        self.prefix = f"{checked(prefix)}/" if prefix else ""
        self.store = _connect(self.root)

    @property
    def uri(self) -> str:
        """The URI as it was given."""
        return self._uri

    def list(self, path: str = "") -> list[FileInfo]:
        """Every file below ``path``, hidden ones too."""
        return [file for file in self.list_all(path) if not is_unfinished(_name(file.path))]

    def list_all(self, path: str = "") -> Sequence[FileInfo]:
        """As ``list``, with what is unfinished."""
        prefix = self.prefix + (f"{checked(path)}/" if path else "")
        with explained("list", self.locate(path)):
            found = [one for page in obstore.list(self.store, prefix) for one in page]
        files = [
            FileInfo(
                one["path"].removeprefix(self.prefix),
                one["size"],
                one["last_modified"].timestamp(),
            )
            for one in found
            if one["path"].startswith(prefix)  # not so for a marker of the prefix itself
        ]
        return sorted(_without_markers(files, path), key=lambda file: file.path)

    def read(self, path: str) -> bytes:
        """The whole file."""
        with explained("read", self.locate(path)):
            return obstore.get(self.store, self.key(path)).bytes().to_bytes()

    def open(self, path: str) -> BinaryIO:
        """The file as a stream. The caller closes it."""
        with explained("read", self.locate(path)):
            found = obstore.get(self.store, self.key(path))
        return stream_of(self._chunks(found, path))

    def _chunks(self, found: obstore.GetResult, path: str) -> Iterator[bytes]:
        with explained("read", self.locate(path)):
            for chunk in found.stream(_CHUNK):
                yield bytes(chunk)

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that has not existed before: the store itself refuses to replace one."""
        while not self._create(path, data):
            # Also after a lost answer: the request is sent again and finds its own object.
            with suppress(FileMissing):  # deleted since: try again
                if self.read(path) == data:
                    return
                raise AlreadyPublished(
                    "the file exists with other contents",
                    hint="Two processes may be writing here. Stop one of them.",
                    path=self.locate(path),
                )

    def _create(self, path: str, data: bytes) -> bool:
        with explained("write", self.locate(path)):
            try:
                obstore.put(self.store, self.key(path), data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def delete(self, path: str) -> None:
        """Remove a file."""
        with explained("delete", self.locate(path)), suppress(FileNotFoundError):
            obstore.delete(self.store, self.key(path))

    def locate(self, path: str) -> str:
        """The URI of a file, with the scheme that this storage was opened with."""
        return f"{self._uri}/{path}" if path else self._uri

    def key(self, path: str) -> str:
        """The name of the object."""
        return self.prefix + checked(path)


def _connect(root: str) -> ObjectStore:
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    options: ClientConfig = {"allow_http": True} if plain else {}
    with explained("open", root):
        return from_url(root, client_options=options, retry_config=_RETRY)


@contextmanager
def explained(doing: str, location: str) -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing("there is no such object or bucket", path=location) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StorageError(
            f"not allowed to {doing}",
            hint="Check the credentials in the environment and what they may do in this bucket.",
            path=location,
        ) from error
    except (BaseError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise StorageError(
            f"cannot {doing}: {reason}",
            hint="Check the endpoint, the region and the credentials in the environment.",
            path=location,
        ) from error


def _without_markers(files: Sequence[FileInfo], path: str) -> Iterator[FileInfo]:
    """Leave out the empty objects with which other tools mark a prefix as a directory."""
    directories = {path}
    for file in files:
        parent = file.path.rpartition("/")[0]
        while parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    for file in files:
        if file.size or file.path not in directories:
            yield file


def _name(path: str) -> str:
    return path.rpartition("/")[2]
