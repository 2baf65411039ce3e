"""Sending one part of an epoch: one transaction, with the marker that says so.

    1  init_transactions   whoever had this id before is fenced; what it left open is aborted or,
                           if the broker had begun to commit it, committed to its end
    2  read the markers    nobody else can add one now. Is the epoch there? Then nothing is to do
    3  begin, send rows
    4  send the marker     when the broker has all rows
    5  commit

A writer that dies before 5 has sent nothing that a reader of committed records sees, one that dies
after it has left the marker. One that does not know whether 5 has happened begins again at 1.

One that knows it, and has the next epoch to send, begins at 3 (see ``kept``). If another writer has
fenced it since, the broker says so when the first rows arrive, and a new one begins at 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.protocol.sent import Owner, SentMarker, Verdict, judge, to_leave
from holdfast.sinks.kafka import kept
from holdfast.sinks.kafka.client import Cluster, KafkaFenced
from holdfast.sinks.kafka.markers import Markers, encode
from holdfast.sinks.kafka.names import transactional_id
from holdfast.sinks.kafka.rows import record_of, records
from holdfast.sinks.kafka.writers import Writer
from holdfast.steps import step

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PartOfEpoch:
    """Which rows, of whom."""

    base: str
    """Of the names at the broker."""
    number: int
    owner: Owner
    """Of the checkpoint."""
    runner: Owner
    """The one that runs now."""
    checkpoint: int

    @property
    def sink(self) -> str:
        """The uid of the sink that sends."""
        return self.runner.sink


def send_part(
    cluster: Cluster, part: PartOfEpoch, batches: Iterable[pa.RecordBatch], topic: str | None
) -> None:
    """Do the five steps; nothing at all for a part without rows."""
    filled = (rows for rows in batches if rows.num_rows)
    first = next(filled, None)
    if first is None:
        return
    writer = _writer_that_goes_on(cluster, part, first, topic)
    if writer is not None:
        with _closed_on_failure(writer):
            markers = [SentMarker(part.owner, part.checkpoint)]
            _send(writer, part, filled, topic, markers, first.num_rows)
    else:
        writer = Writer(cluster, part.base, part.number)
        with _closed_on_failure(writer):
            found = _fence_and_look(cluster, writer, part)
            if _is_sent(part, found):  # and perhaps later ones: this writer does not know them
                writer.close()
                return
            _begin(writer, part)
            markers = to_leave(found, part.owner, part.runner, part.checkpoint)
            _send(writer, part, itertools.chain([first], filled), topic, markers, 0)
    if part.owner == part.runner:
        kept.keep(cluster, writer, part.owner, part.checkpoint)
    else:
        writer.close()


def _writer_that_goes_on(
    cluster: Cluster, part: PartOfEpoch, first: pa.RecordBatch, topic: str | None
) -> Writer | None:
    """With the first rows at the broker, which would have said if another one were in its place."""
    if part.owner != part.runner:
        return None
    name = transactional_id(part.base, part.number)
    writer = kept.take(cluster, name, part.owner, part.checkpoint)
    if writer is None:
        return None
    try:
        with _closed_on_failure(writer):
            _begin(writer, part)
            with _aborted_on_failure(writer):
                _invoke(writer, part, first, topic)
                writer.arrive()
    except KafkaFenced:
        return None
    return writer


@contextmanager
def _closed_on_failure(writer: Writer) -> Iterator[None]:
    try:
        yield
    except BaseException:
        writer.close()
        raise


@contextmanager
def _aborted_on_failure(writer: Writer) -> Iterator[None]:
    """Readers of its partitions would wait."""
    try:
        yield
    except BaseException:
        writer.abort()
        raise


def _fence_and_look(cluster: Cluster, writer: Writer, part: PartOfEpoch) -> list[SentMarker]:
    with step("fence", part.sink):
        writer.fence()
    with cluster.telling():
        return Markers(cluster, part.base).of(part.number, part.owner, part.runner)


def _begin(writer: Writer, part: PartOfEpoch) -> None:
    with step("begin", part.sink):
        writer.begin()


def _is_sent(part: PartOfEpoch, found: list[SentMarker]) -> bool:
    verdict = judge(found, part.owner, part.runner, part.checkpoint)
    if verdict is Verdict.TAKEN_OVER:
        raise KafkaFenced(
            "another one has taken over this sink's names at the broker",
            hint="Give each job a transactional_id_prefix of its own.",
            prefix=part.base,
            other_job=found[-1].owner.job_id,
            other_sink=found[-1].owner.sink,
        )
    return verdict is Verdict.SENT


def _send(
    writer: Writer,
    part: PartOfEpoch,
    batches: Iterable[pa.RecordBatch],
    topic: str | None,
    markers: list[SentMarker],
    sent: int,
) -> None:
    """The rest of the rows, behind those that were ``sent`` already, and the end."""
    with _aborted_on_failure(writer):
        for rows in batches:
            _invoke(writer, part, rows, topic)
            sent += rows.num_rows
        with step("prepare", part.sink):
            writer.arrive()
            for marker in markers:
                put_marker(writer, part.base, part.number, marker, sent)
        with step("part", part.sink):
            writer.commit()


def _invoke(writer: Writer, part: PartOfEpoch, rows: pa.RecordBatch, topic: str | None) -> None:
    with step("invoke", part.sink):
        writer.send(records(rows, topic))


def mark(writer: Writer, base: str, part: int, marker: SentMarker) -> None:
    """Leave a marker in a transaction of its own."""
    writer.begin()
    put_marker(writer, base, part, marker, 0)
    writer.commit()


def put_marker(writer: Writer, base: str, part: int, marker: SentMarker, rows: int) -> None:
    """When the broker has it, a commit makes the rows and the marker visible together."""
    key, value = encode(marker, rows)
    writer.send([record_of(base, value, key, part)])
    writer.arrive()
