"""The working directory of a job: its id, its attempts, the counter of checkpoint ids.

<work>/<job>/job                 {"id": …}, written once
<work>/<job>/ids/<n>             the last checkpoint id that was given out
<work>/<job>/epochs/<n>          who runs the job: see ``fencing``
<work>/<job>/attempt-<k>/        one life of the job
    attempt                      written last when the attempt is built
    ended                        {"state": "FINISHED" | "CANCELED"}, when it is over for good
    regions/<uid>/               query logs
    channels/<uid>/log/<batch>   which files are the segment of a batch
    channels/<uid>/segments/     the files
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.errors import AlreadyPublished, DamagedFile, FileMissing
from holdfast.storage import Storage, Tree, create_tree, open_storage
from holdfast.storage.names import CLAIM
from holdfast.storage.trees import (
    delete_tree,
    delete_unfinished,
    delete_unfinished_entries,
    delete_unsealed,
    list_all,
)

_SEAL = "attempt"
_ENDED = "ended"
_ATTEMPT = re.compile(r"attempt-(\d+)/" + _SEAL)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the job's working directory."""

    number: int
    storage: Storage
    restored_from: int | None
    ended: str | None

    def region(self, uid: str) -> str:
        """Where the region's query log is."""
        return self.storage.locate(f"regions/{uid}")


class WorkDirectory:
    """All attempts of one job."""

    def __init__(self, location: str, job: str) -> None:
        self.location = f"{location.rstrip('/')}/{job}"
        self.storage = open_storage(self.location)
        self.job_id = self._take_job_id()
        self._given = 0
        """The last id that was taken here, should its record get lost."""

    def delete_unfinished(self) -> None:
        """Delete what earlier runners were writing, or deleting, here when they died."""
        for folder in ("ids", "epochs"):
            delete_unfinished(open_storage(self.storage.locate(folder)))
        delete_unfinished_entries(self.storage)
        for number in self._remains():
            delete_unsealed(self.storage, f"attempt-{number}", _SEAL)

    def _remains(self) -> list[int]:
        """Attempts that were never finished, or half deleted. The newest may merely have lost its
        seal; then it has run, and its number must not be given out again."""
        found = {info.path for info in list_all(self.storage)}
        newest = max(self._sealed(), default=0)
        return [
            number
            for number in self._begun()
            if f"attempt-{number}/{_SEAL}" not in found
            and (number < newest or f"attempt-{number}/{CLAIM}" in found)
        ]

    @classmethod
    def find(cls, location: str, job: str) -> WorkDirectory | None:
        """That of a job that has run before; nothing is made."""
        storage = open_storage(f"{location.rstrip('/')}/{job}")
        try:
            storage.read("job")
        except FileMissing:
            return None
        return cls(location, job)

    def _take_job_id(self) -> str:
        with suppress(FileMissing, DamagedFile):
            return str(self._record("job")["id"])
        self.storage.delete("job")
        with suppress(AlreadyPublished):  # another process may be quicker
            self.storage.publish("job", json.dumps({"id": self._remembered_id()}).encode())
        return str(self._record("job")["id"])

    def _remembered_id(self) -> str:
        """Attempts know whose they are: a job that lost its id would write every row again."""
        for number in reversed(self._sealed()):
            if (known := self._record(f"attempt-{number}/{_SEAL}").get("job")) is not None:
                return str(known)
        return uuid.uuid4().hex

    def _record(self, path: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.storage.read(path))
        except ValueError as error:
            raise DamagedFile(
                "a file of the working directory is damaged", path=self.storage.locate(path)
            ) from error
        return found

    def _sealed(self) -> list[int]:
        """Attempts that were built completely and can be read, the oldest first."""
        numbers = []
        for info in self.storage.list():
            if match := _ATTEMPT.fullmatch(info.path):
                with suppress(DamagedFile):
                    self._record(info.path)
                    numbers.append(int(match[1]))
        return sorted(numbers)

    def current(self) -> Attempt | None:
        """The newest attempt that was built completely."""
        sealed = self._sealed()
        return self._attempt(sealed[-1]) if sealed else None

    def _attempt(self, number: int) -> Attempt:
        folder = f"attempt-{number}"
        record = self._record(f"{folder}/{_SEAL}")
        ended = None
        with suppress(FileMissing):
            ended = str(self._record(f"{folder}/{_ENDED}")["state"])
        storage = open_storage(self.storage.locate(folder))
        return Attempt(number, storage, record["restored_from"], ended)

    def begin(
        self, restored_from: int | None, fill: Callable[[Tree, str], None] | None = None
    ) -> Attempt:
        """Build a new attempt; it is there when everything in it is."""
        number = self._next_number()
        location = self.storage.locate(f"attempt-{number}")
        tree = create_tree(location, seal=_SEAL)
        record = {"number": number, "restored_from": restored_from, "job": self.job_id}
        try:
            if fill is not None:
                fill(tree, location)
            tree.write(_SEAL, json.dumps(record).encode())
            tree.publish()
        finally:
            tree.discard()
        return Attempt(number, open_storage(location), restored_from, None)

    def _next_number(self) -> int:
        return max(self._begun(), default=0) + 1

    def _begun(self) -> list[int]:
        """All attempts, unsealed ones too: in object stores one may be there in part."""
        found = {info.path.split("/")[0] for info in list_all(self.storage)}
        return sorted(int(name[8:]) for name in found if re.fullmatch(r"attempt-\d+", name))

    def remove_older(self, attempt: Attempt) -> None:
        """Delete attempts before this one."""
        for number in self._begun():
            if number < attempt.number:
                delete_tree(self.storage, f"attempt-{number}", _SEAL)

    def end(self, attempt: Attempt, state: str) -> None:
        """Record that the attempt is over for good."""
        attempt.storage.publish(_ENDED, json.dumps({"state": state}).encode())

    def next_checkpoint(self, at_least: int) -> int:
        """Take the next checkpoint id; it is never given out again."""
        given = self.given_ids()
        number = max([*given, at_least - 1, self._given]) + 1
        self._given = number
        self.storage.publish(f"ids/{number}", b"")
        for old in given:
            self.storage.delete(f"ids/{old}")
        return number

    def given_at(self, checkpoint: int) -> float | None:
        """When an id was taken, if that is still on record."""
        found = (i for i in self.storage.list("ids") if i.path == f"ids/{checkpoint}")
        return next((info.modified for info in found), None)

    def given_ids(self) -> list[int]:
        """The ids on record; all but the newest may be gone."""
        return [int(info.path.rpartition("/")[2]) for info in self.storage.list("ids")]
