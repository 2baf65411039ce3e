"""What the processes of the storage contracts do: functions of a module, since they are pickled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.errors import AlreadyPublished, DestinationExists
from holdfast.storage import FileInfo, Storage, Tree

Open = Callable[[str], Storage]
Create = Callable[[str, str], Tree]

SEAL = "whole.json"


def publishing(open_: Open, location: str, data: bytes) -> Callable[[], str]:
    """Get ready to publish ``dir/file`` in a process of its own."""
    return partial(publish, open_(location), "dir/file", data)


def publish(storage: Storage, path: str, data: bytes) -> str:
    """Publish, and say how it went."""
    try:
        storage.publish(path, data)
    except AlreadyPublished:
        return "lost"
    return "won"


def publish_own(open_: Open, location: str, racer: int, number: int) -> str:
    """Publish bytes that no other racer has."""
    return publish(open_(location), f"round-{number}", own_bytes(racer))


def publish_common(open_: Open, location: str, _racer: int, number: int) -> str:
    """Publish bytes that all racers have."""
    return publish(open_(location), f"round-{number}", b"common" * 1000)


def own_bytes(racer: int) -> bytes:
    """Long enough that a mixture would show."""
    return b"%d" % racer * 50_000


def contents(storage: Storage) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {file.path: storage.read(file.path) for file in storage.list()}


def exactly(storage: Storage) -> list[tuple[FileInfo, bytes]]:
    """Every file with size, time of change and bytes, to tell whether anything was touched."""
    return [(file, storage.read(file.path)) for file in storage.list()]


def building_copy(create: Create, open_: Open, source: str, target: str) -> Callable[[], None]:
    """Get ready to copy a whole storage, in a process of its own."""
    return partial(copy_all, create, open_(source), target)


def copy_all(create: Create, source: Storage, target: str) -> None:
    """Copy a whole storage."""
    tree = create(target, SEAL)
    for file in source.list():
        tree.copy(source, file.path, file.path)
    tree.write(SEAL, b"{}")
    tree.publish()


def building_own(create: Create, open_: Open, target: str, builder: int) -> Callable[[], str]:
    """Get ready to build a tree that no other builder builds."""
    open_(target)  # what is slow to start for the first time is started
    return partial(build, create, target, own_files(builder))


def build(create: Create, target: str, files: dict[str, bytes]) -> str:
    """Build a tree, and say how it went."""
    try:
        tree = create(target, SEAL)
        for path, data in files.items():
            tree.write(path, data)
        tree.publish()
    except DestinationExists:
        return "lost"
    return "won"


def build_own(create: Create, location: str, racer: int, number: int) -> str:
    """Build this round's tree."""
    return build(create, f"{location}/{number}", own_files(racer))


def own_files(racer: int) -> dict[str, bytes]:
    """A common name, a name of its own and the seal, all with the racer's number inside."""
    return dict.fromkeys((SEAL, "common/file", f"own/{racer}"), b"%d" % racer)
