"""What the suites for sinks have in common: rows to write, and how a broken rule is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

Row = tuple[int, str | None]
"""Columns ``id`` and ``text``."""

ODD_TEXTS = [
    *("", " ", "trailing ", None, "null", "NULL", "\\N", "\\", "a\\nb", "%s", "?", "{}"),
    *("tab\tand\nlines\r\n", "a,b;c|d", "'single'", '"double"', "`back`", "'; DROP TABLE x; --"),
    *("ümlaut", "日本語", "עברית", "🪸 \N{FAMILY}", "e\u0301", "\u200b", "\ufeffmark"),
]


def some_rows(first: int, count: int) -> list[Row]:
    """Rows of which no two are the same."""
    return [(number, f"row {number}") for number in range(first, first + count)]


class SinkContract:
    """What a suite must be told about a sink."""

    stride = 1
    """Processes die at every step; at every n-th where starting a process is dear."""

    def visible(self) -> Iterable[Sequence[object]]:
        """What a reader sees now, as ``(id, text)`` in any order. Not through the sink."""
        raise NotImplementedError

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Rows as the sink gets them. Override it if your store needs further columns."""
        ids, texts = zip(*rows, strict=True)
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        columns = [pa.array(ids, pa.int64()), pa.array(texts, pa.string())]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def batches(self, rows: Sequence[Row]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The same in two pieces."""
        half = len(rows) // 2
        return self.batch(rows[:half]), self.batch(rows[half:])

    def sees(self, expected: Iterable[Row]) -> None:
        """A reader must find exactly these rows."""
        found: Counter[Any] = Counter(map(tuple, self.visible()))
        wanted: Counter[Any] = Counter(expected)
        missing, surplus = list((wanted - found).items()), list((found - wanted).items())
        assert not missing, f"rows (and how often) that are not visible: {missing[:5]}"
        assert not surplus, f"rows (and how often) that are visible and should not: {surplus[:5]}"

    def sees_all_or_none(self, rows: Sequence[Row], besides: Sequence[Row]) -> None:
        """A reader must find either all or none of these rows, and the others in any case."""
        has_some = len(list(self.visible())) > len(besides)
        self.sees([*besides, *rows] if has_some else besides)


@contextmanager
def rule(number: int, sentence: str) -> Iterator[None]:
    """Whatever goes wrong inside breaks this rule."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, AssertionError) else repr(error)
        raise AssertionError(f"rule {number}: {sentence}\n  {reason}") from error
