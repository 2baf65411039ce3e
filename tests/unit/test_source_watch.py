"""Sources that are looked at while a job runs."""

from __future__ import annotations

import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.runtime.source_watch import SourceWatch
from tests.services.processes import wait_until


class Region:
    def __init__(self, uid: str, error: Exception | None = None) -> None:
        self.uid = uid
        self.halted = False
        self.finished = False
        self.error = error
        self.looks = 0

    def check_sources(self) -> None:
        self.looks += 1
        if self.error is not None:
            raise self.error


def watched(*regions: Region) -> tuple[SourceWatch, list[tuple[HoldfastError, str]]]:
    lost: list[tuple[HoldfastError, str]] = []
    watch = SourceWatch(regions, lambda error, uid: lost.append((error, uid)), seconds=0.01)
    watch.start()
    return watch, lost


def test_a_source_that_is_not_what_it_was_is_told_with_its_region() -> None:
    error = UsageError("another topic")
    watch, lost = watched(Region("fine"), Region("hurt", error))
    wait_until(lambda: bool(lost), "the loss is told", 10)
    watch.close()
    assert lost[0] == (error, "hurt")


def test_a_server_that_does_not_answer_is_no_loss() -> None:
    away, fine = Region("away", OSError("no route")), Region("fine")
    watch, lost = watched(away, fine)
    wait_until(lambda: away.looks > 2 and fine.looks > 2, "it goes on looking", 10)
    watch.close()
    assert lost == []


@pytest.mark.parametrize("why", ["halted", "finished"])
def test_a_region_that_waits_for_its_restart_or_has_finished_is_left_alone(why: str) -> None:
    idle, fine = Region("idle", UsageError("x")), Region("fine")
    setattr(idle, why, True)
    watch, lost = watched(idle, fine)
    wait_until(lambda: fine.looks > 2, "the other is looked at", 10)
    watch.close()
    assert (idle.looks, lost) == (0, [])
