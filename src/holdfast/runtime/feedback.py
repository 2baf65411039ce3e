"""Whether a job would read what it writes itself, because a pattern is too wide.

A sink with a topic for its markers would be read as rows, which make new markers: for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol, runtime_checkable

from holdfast.errors import UsageError
from holdfast.protocol.graph import Graph, SinkUse, Source

_log = logging.getLogger(__name__)


@runtime_checkable
class ReadsByPattern(Protocol):
    """A source that takes topics by their names."""

    def would_read(self, servers: str, topic: str) -> bool:
        """Whether a pattern makes it read that topic."""
        ...


@runtime_checkable
class WritesTopics(Protocol):
    """A sink that writes to topics."""

    servers: str

    def own_topic(self, job_id: str, sink: str) -> str:
        """The one with its markers."""
        ...

    def target_topics(self) -> Collection[str]:
        """Those for rows, as far as they are known before there are any."""
        ...


def refuse_feedback(graph: Graph, job_id: str) -> None:
    """Markers are never meant to be read as rows; rows that go round may be."""
    for source in graph.sources.values():
        for use in graph.sinks.values():
            if isinstance(source.open, ReadsByPattern) and isinstance(use.sink, WritesTopics):
                _refuse_markers(source, use, use.sink.own_topic(job_id, use.uid))
                _warn_of_rows(source, use)


def _refuse_markers(source: Source, use: SinkUse, topic: str) -> None:
    if source.open.would_read(use.sink.servers, topic):  # type: ignore[attr-defined]
        raise UsageError(
            f"the pattern of source {source.uid} also matches {topic}, in which sink {use.uid} "
            "keeps its markers: the job would read what it writes, for ever",
            hint="Make the pattern narrower, or give the sink a transactional_id_prefix that it "
            "does not match.",
        )


def _warn_of_rows(source: Source, use: SinkUse) -> None:
    for topic in use.sink.target_topics():
        if source.open.would_read(use.sink.servers, topic):  # type: ignore[attr-defined]
            _log.warning(
                "source %s reads topic %s by its pattern, and sink %s writes to it",
                source.uid,
                topic,
                use.uid,
            )
