"""Sharing out files among tasks: big ones are cut, small ones are put together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.spark.steering import DataFile


@dataclass(frozen=True, slots=True)
class Limits:
    """Spark's settings for reading files."""

    most_bytes: int
    """What one task should read at most (``spark.sql.files.maxPartitionBytes``)."""

    open_cost: int
    """Opening a file takes as long as reading this (``spark.sql.files.openCostInBytes``)."""

    parallelism: int
    """How many tasks can run at once."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file, or all of it."""

    file: DataFile
    start: int
    length: int


def share_out(files: Sequence[DataFile], limits: Limits) -> list[list[Piece]]:
    """The pieces that each task reads; every byte of every file is in exactly one piece.

    There are as many tasks as can run at once, if there are as many pieces, and more only if the
    tasks would become too large. Spark's own rule ends up with idle cores when a few small files
    do not divide evenly; this one gives each piece, largest first, to the task with least to do.
    """
    size = _piece_size(files, limits)
    pieces = [piece for file in files for piece in _cut(file, size)]
    pieces.sort(key=lambda piece: -piece.length)
    tasks: list[list[Piece]] = [[] for _ in range(_task_count(pieces, limits))]
    loads = [(0, number) for number in range(len(tasks))]
    for piece in pieces:
        load, number = loads[0]
        tasks[number].append(piece)
        heapq.heapreplace(loads, (load + piece.length + limits.open_cost, number))
    return tasks


def _piece_size(files: Sequence[DataFile], limits: Limits) -> int:
    work = sum(file.size + limits.open_cost for file in files)
    fair_share = -(-work // limits.parallelism)
    return max(1, min(limits.most_bytes, max(limits.open_cost, fair_share)))


def _cut(file: DataFile, size: int) -> Iterator[Piece]:
    # An empty file is no Parquet file; it gets a piece so that the reader can complain.
    for start in range(0, file.size, size) or (0,):
        yield Piece(file, start, min(size, file.size - start))


def _task_count(pieces: Sequence[Piece], limits: Limits) -> int:
    work = sum(piece.length + limits.open_cost for piece in pieces)
    return min(len(pieces), max(limits.parallelism, -(-work // limits.most_bytes)))
