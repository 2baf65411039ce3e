"""Driving a two-phase sink: single calls as tasks and drivers make them, each on its own object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.sinks.interface import Handle
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink
from holdfast.testing.sinks_calls import JOB, SINK, over_json
from holdfast.testing.sinks_rows import Row, SinkContract, rule


class TwoPhaseCommitDriving(SinkContract):
    """What you say about your sink, and what the tests do with it."""

    def make_sink(self) -> TwoPhaseCommitSink:
        """A new object, on the same store within a test; it appends rows."""
        raise NotImplementedError

    def make_keyed_sink(self) -> TwoPhaseCommitSink:
        """One with ``key = ("id",)``, on the same store. Leave it out if there is none."""
        pytest.skip("the sink has no key")

    def restart_store(self) -> None:
        """Kill the store's server and start it again. Leave it out if there is no server."""
        pytest.skip("the store has no server that could be killed")

    def part(
        self,
        checkpoint: int,
        number: int = 0,
        token: str = "0123abcd",
        owner: tuple[str, str] = (JOB, SINK),
    ) -> Part:
        """Which rows a transaction is about."""
        return Part(*owner, checkpoint, number, token)

    def written(
        self,
        rows: Sequence[Row],
        checkpoint: int = 1,
        number: int = 0,
        token: str = "0123abcd",
        owner: tuple[str, str] = (JOB, SINK),
        sink: TwoPhaseCommitSink | None = None,
    ) -> dict[str, Any]:
        """What a task does: write and pre-commit. Returns the handle that the driver gets."""
        sink = sink or self.make_sink()
        handle = sink.begin(self.part(checkpoint, number, token, owner))
        sink.invoke(handle, self.batch(rows))
        sink.pre_commit(handle)
        sink.close()
        return over_json(handle)

    def commit(self, handle: Handle) -> None:
        """What the driver does when the checkpoint is complete."""
        sink = self.make_sink()
        sink.commit(handle)
        sink.close()

    def pending(self, job_id: str = JOB, sink: str = SINK) -> list[dict[str, Any]]:
        """What the store holds."""
        asked = self.make_sink()
        found = [over_json(handle) for handle in asked.pending(job_id, sink)]
        asked.close()
        return found

    def nothing_is_pending(self) -> None:
        """No transaction is left behind."""
        with rule(6, "what was committed or aborted is not pending"):
            found = self.pending()
            assert found == [], f"pending: {found}"
