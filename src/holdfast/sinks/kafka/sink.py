"""Kafka topics, exactly once: the rows of an epoch are one transaction, with a marker in it.

Nothing is sent before the checkpoint is complete: its rows are staged, and a copy of them is part
of it. Then a task sends them (see ``sending``). Kafka's transactions cannot be prepared and then
committed by somebody else, so this is the write-ahead way; ``docs/decisions/0010-kafka-sink.md``
has the reasons, and what holds after a crash at any point.

**What a reader sees.** One with ``isolation.level=read_committed`` sees all that an epoch has for a
partition at once, and the partitions within moments: the broker tells one after the other that the
transaction is committed. With ``parallelism=n`` an epoch is n transactions, which such a reader may
see one after the other. Rows of one key are always in one transaction, in the order of their
batches and files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from holdfast.errors import HoldfastError, UsageError
from holdfast.protocol.sent import Claim, Owner, SentMarker, judge_claim, newest_of
from holdfast.sinks.interface import Epoch, Handle
from holdfast.sinks.kafka import checks, fitting
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.footers import extremes_of
from holdfast.sinks.kafka.markers import Markers
from holdfast.sinks.kafka.names import base_name, refuse_prefix
from holdfast.sinks.kafka.options import refuse_options
from holdfast.sinks.kafka.plain import KafkaPlain
from holdfast.sinks.kafka.rows import refuse_columns, selected, used
from holdfast.sinks.kafka.sending import PartOfEpoch, mark
from holdfast.sinks.kafka.tasks import send_epoch
from holdfast.sinks.kafka.writers import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Delivery = Literal["exactly-once", "at-least-once"]
LostMarkers = Literal["refuse", "send", "skip"]
_log = logging.getLogger(__name__)


class MarkersLost(UsageError):
    """It cannot be known any more whether an epoch was sent."""

    code = "MARKERS_LOST"


@dataclass(frozen=True, slots=True)
class _Names:
    """What was claimed for a sink of the job."""

    base: str
    markers: str
    """The id of the topic with the markers."""


class KafkaSink:
    """An ``EpochSink``. Its handle has the owner, the names at the broker and the parts.

    A job may give one object to several sinks; each has names of its own, by its uid.
    """

    keeps_rows = True

    def __init__(
        self,
        cluster: Cluster,
        topic: str | None,
        *,
        prefix: str | None = None,
        parallelism: int = 1,
        take_over: str | None = None,
        lost_markers: LostMarkers = "refuse",
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._prefix = prefix
        self._parallelism = parallelism
        self._take_over = take_over
        self._lost_markers = lost_markers
        self._names: dict[str, _Names] = {}
        self._limits: dict[str, fitting.TopicLimits] = {}

    def __repr__(self) -> str:
        return f"KafkaSink({self._where})"

    @property
    def servers(self) -> str:
        """Where the brokers are."""
        return self._cluster.servers

    def own_topic(self, job_id: str, sink: str) -> str:
        """The one with its markers."""
        return base_name(self._prefix, job_id, sink)

    def target_topics(self) -> list[str]:
        """Those for rows; none is known if the rows name them."""
        return [] if self._topic is None else [self._topic]

    @property
    def _where(self) -> str:
        topic = f"topic {self._topic}" if self._topic is not None else "topics named in the rows"
        return f"{topic} at {self._cluster}"

    # Before the first row

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """The columns fit, the cluster answers, the topic is there and may be written."""
        refuse_columns(schema, self._topic)
        checks.refuse_target(self._cluster, self._topic)
        if self._topic is not None:
            self._limits |= checks.limits_of(self._cluster, [self._topic])

    def claim(self, job_id: str, sink: str) -> None:
        """Shut out earlier writers of this sink, and end what they have left open."""
        base, owner = self.own_topic(job_id, sink), Owner(job_id, sink)
        markers = Markers(self._cluster, base)
        topic = markers.ensure(self._parallelism)
        self._refuse_taken(markers.last(0), owner, base)  # without disturbing anybody
        for part in range(topic.partitions):
            writer = Writer(self._cluster, base, part)
            try:
                writer.fence()
                self._leave_claim(writer, markers, part, owner)
            finally:
                writer.close()
        self._names[sink] = _Names(base, topic.id)

    def _leave_claim(self, writer: Writer, markers: Markers, part: int, owner: Owner) -> None:
        last = markers.last(part)
        self._refuse_taken(last, owner, markers.topic)
        if judge_claim(last, owner, self._take_over) is not Claim.OURS:
            newest = newest_of(markers.of(part, owner), owner)  # it may have had them before
            mark(writer, markers.topic, part, SentMarker(owner, newest))

    def _refuse_taken(self, last: SentMarker | None, owner: Owner, base: str) -> None:
        if last is None or judge_claim(last, owner, self._take_over) is not Claim.TAKEN:
            return
        other = last.owner
        raise UsageError(
            f"the transactional ids {base}-… belong to job {other.job_id}, sink {other.sink}",
            hint=_instead(owner, other),
            job=owner.job_id,
            sink=owner.sink,
            servers=self._cluster.servers,
        )

    # Epochs

    def pre_commit(self, epoch: Epoch) -> Handle:
        """The rows are staged already. What could never be sent must not be promised."""
        names = self._names.get(epoch.sink)
        if names is None:
            raise UsageError("the sink's names are not claimed", sink=epoch.sink)
        topics = self._refuse_rows(epoch) if epoch.files else []
        return {
            "checkpoint": epoch.checkpoint,
            "job_id": epoch.job_id,
            "sink": epoch.sink,
            "base": names.base,
            "markers": names.markers,
            "parts": self._parallelism,
            "most_bytes": fitting.most_bytes(self._limits[topic] for topic in topics),
        }

    def _refuse_rows(self, epoch: Epoch) -> list[str]:
        """The topics of the rows.

        The broker is asked only if the rows do not fit what is known of its topics, so one that is
        away fails no checkpoint.
        """
        if self._topic is not None and self._footers_prove_that_rows_fit(epoch, self._topic):
            return [self._topic]
        found = fitting.extremes(selected(epoch.rows(), self._topic), self._topic)
        topics = [each.topic for each in found if each.topic is not None]
        if fitting.problems(found, self._limits, _now()):
            self._limits |= checks.limits_of(self._cluster, topics)
            fitting.refuse_records(found, self._limits, _now(), epoch.sink)
        return topics

    def _footers_prove_that_rows_fit(self, epoch: Epoch, topic: str) -> bool:
        if topic not in self._limits:
            return False
        columns = used(epoch.schema, topic)
        found = extremes_of(epoch.segments, columns, topic, self._limits[topic].most_bytes)
        return found is not None and not fitting.problems([found], self._limits, _now())

    def commit(self, epoch: Epoch, handle: Handle) -> None:
        """Send everything that has not been sent."""
        if not epoch.files or self._is_skipped(handle):
            return
        runner = Owner(epoch.job_id, epoch.sink)
        part = PartOfEpoch(handle["base"], 0, _owner(handle), runner, handle["checkpoint"])
        cluster = self._cluster.with_batches_of(handle["most_bytes"])
        send_epoch(cluster, self._topic, epoch, part, handle["parts"])

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        """The markers tell whether there is anything to do."""
        self.commit(epoch, handle)

    def _is_skipped(self, handle: Handle) -> bool:
        """Whether the markers are lost, and the user says that the rows have been sent."""
        found = Markers(self._cluster, handle["base"]).find()
        if found is not None and found.id == handle["markers"]:
            return False
        if self._lost_markers == "refuse":
            raise MarkersLost(
                "the topic with the sink's markers was deleted: it is not known whether the rows "
                f"of checkpoint {handle['checkpoint']} have been sent",
                hint="Look into the topic. Then start the job once with lost_markers='skip' if "
                "they are there, or with lost_markers='send' if not.",
                topic=handle["base"],
                servers=self._cluster.servers,
            )
        _log.warning(
            "the markers of %s are lost; checkpoint %s: %s",
            handle["base"],
            handle["checkpoint"],
            self._lost_markers,
        )
        Markers(self._cluster, handle["base"]).ensure(handle["parts"])
        return self._lost_markers == "skip"

    def abort(self, handle: Handle) -> None:
        """Nothing has left the job yet."""

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:  # noqa: ARG002
        """What a writer has left open is ended by ``claim``, or by the broker in the end."""
        return ()

    def describe(self, handle: Handle) -> list[str]:
        """Where the rows go."""
        what = f"{self._where}, transactional id {handle['base']}"
        return [f"{what}-{part}" for part in range(handle["parts"])]

    def inquire(self, handle: Handle) -> list[str]:
        """The same, and what the broker has; an operator waits for this."""
        what = f"{self._where}, transactional id {handle['base']}"
        try:
            return [f"{what}-{part}; {said}" for part, said in self._told(handle)]
        except HoldfastError as error:
            return [f"{what}; Kafka does not answer: {error.message}"]

    def _told(self, handle: Handle) -> Iterator[tuple[int, str]]:
        markers, owner = Markers(self._cluster.impatient(), handle["base"]), _owner(handle)
        for part in range(handle["parts"]):
            newest = newest_of(markers.of(part, owner), owner)
            is_sent = newest >= handle["checkpoint"]
            yield part, "sent" if is_sent else f"not sent, the newest is checkpoint {newest}"


def _now() -> int:
    """Of the machine's own clock, as brokers have theirs."""
    return int(time.time() * 1000)


def _owner(handle: Handle) -> Owner:
    return Owner(handle["job_id"], handle["sink"])


def _instead(owner: Owner, other: Owner) -> str:
    if other.job_id == owner.job_id:
        return (
            "Prefix and uid make the name: give the two sinks prefixes or uids that do not make "
            "the same. Was the sink only renamed, give it a new transactional_id_prefix too."
        )
    return (
        "Give each job a transactional_id_prefix of its own. If that job will never run again, or "
        f"this one was restored from it: take_over='{other.job_id}'."
    )


def kafka(
    servers: str,
    topic: str | None = None,
    *,
    delivery: Delivery = "exactly-once",
    transactional_id_prefix: str | None = None,
    parallelism: int | None = None,
    options: Mapping[str, Any] | None = None,
    take_over: str | None = None,
    lost_markers: LostMarkers = "refuse",
) -> KafkaSink | KafkaPlain:
    """Records of Kafka; columns as in Spark's Kafka sink (see ``rows``).

    servers      ``"host:port,host:port"``
    topic        of all rows; without it they have a column ``topic``
    delivery     ``exactly-once``: rows appear when their checkpoint completes, to readers with
                 ``isolation.level=read_committed``. ``at-least-once``: with their batch, and the
                 rows of a batch may come again after a crash
    transactional_id_prefix  of the names at the broker, for rights that are given by prefix;
                 ``holdfast-<job id>`` if not given. Together with the sink's uid it belongs to one
                 job
    parallelism  how many tasks send at once. Exactly once: 1 if not given, as with more a reader
                 could see a part of an epoch. At least once: as many as the batch has
    options      of librdkafka, for instance ``security.protocol``, ``compression.type``,
                 ``transaction.timeout.ms``
    take_over    the id of a job that has used the prefix before and will not run again
    lost_markers what to do when somebody has deleted the topic with the sink's markers: ``refuse``
                 to go on, ``send`` the rows in question, or ``skip`` them
    """
    chosen = dict(options or {})
    _refuse_arguments(servers, delivery, lost_markers, parallelism)
    refuse_options(chosen)
    refuse_prefix(transactional_id_prefix)
    cluster = Cluster(servers, chosen)
    if delivery == "at-least-once":
        return KafkaPlain(cluster, topic, parallelism)
    return KafkaSink(
        cluster,
        topic,
        prefix=transactional_id_prefix,
        parallelism=parallelism or 1,
        take_over=take_over,
        lost_markers=lost_markers,
    )


def _refuse_arguments(
    servers: str, delivery: str, lost_markers: str, parallelism: int | None
) -> None:
    if not isinstance(servers, str) or not servers.strip():
        raise UsageError("the Kafka sink needs servers", hint="Write 'host:9092,other:9092'.")
    if delivery not in get_args(Delivery):
        raise UsageError(
            f"there is no delivery {delivery!r}", hint="It is exactly-once or at-least-once."
        )
    if lost_markers not in get_args(LostMarkers):
        raise UsageError(
            f"lost_markers cannot be {lost_markers!r}", hint="It is refuse, send or skip."
        )
    if parallelism is not None and parallelism < 1:
        raise UsageError("parallelism is at least 1", given=parallelism)
