"""What a process does until it is killed. It imports little: there is a process for every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from holdfast.sinks.files.sink import FilesSink
from holdfast.sinks.interface import Epoch, Handle


def recover(sink: FilesSink, epoch: Epoch, owned: Handle | None) -> None:
    """What the runtime does after a restart."""
    if owned is not None:
        sink.recover_and_commit(replace(epoch, segments=()), owned)
    for handle in sink.pending(epoch.job_id, epoch.sink):
        assert owned is None or handle["checkpoint"] != owned["checkpoint"]
        sink.abort(handle)


def pre_committing(sink: FilesSink, epoch: Epoch) -> Callable[[], object]:
    return partial(sink.pre_commit, epoch)


def recovering(sink: FilesSink, epoch: Epoch, owned: Handle | None) -> Callable[[], object]:
    return partial(recover, sink, epoch, owned)
