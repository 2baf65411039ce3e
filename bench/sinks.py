"""The tables about sinks: rows per second, and what kills do to a plain ``foreachBatch``.

Each part has a process of its own, because JDBC drivers must be there when its Spark starts.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from bench import contrast, databases, sinks_files, sinks_mysql, sinks_postgres, sinks_sqlite
from bench.databases import JDBC, JDBC_REWRITE, SINK, SINK_TWO, UPSERT, Speeds

PER_SECOND = "| {} | {:,.0f} | {:,.0f} | {:.2f} | {} |"
POSTGRES_AIM, FILES_AIM = 1.0, 0.9


def measure() -> str:
    """All tables."""
    lines = [
        "## Sinks",
        "",
        *_what_is_measured(),
        "",
        "| exactly once, by Holdfast | the other | Holdfast | as a multiple | aim |",
        "|---|---:|---:|---:|---:|",
        *_database("PostgreSQL", _alone("sinks_postgres"), POSTGRES_AIM),
        *_database("MariaDB", _alone("sinks_mysql"), None),
        *_sqlite(_alone("sinks_sqlite")),
        *_files(_alone("sinks_files")),
        "",
        *_contrast(contrast.measure()),
        "",
    ]
    return "\n".join(lines)


def _what_is_measured() -> list[str]:
    """Of the rounds and rows that are measured, whatever they are set to."""
    (rounds,) = {databases.ROUNDS, sinks_sqlite.ROUNDS, sinks_files.ROUNDS}
    return [
        f"Rows per second, medians of {rounds} rounds, taking turns; with databases one epoch from",
        f"staged rows to visible ones (PostgreSQL {sinks_postgres.ROWS:,} rows, MariaDB "
        f"{sinks_mysql.ROWS:,}, SQLite {sinks_sqlite.ROWS:,}),",
        f"with files a whole job of {sinks_files.ROWS / 1e6:g} M rows until its last row is "
        "visible. JDBC and pandas write without",
        "guarantees.",
    ]


def _alone(module: str) -> Any:
    print(f"measuring {module.replace('_', ' ')} …", flush=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_run, module).result()


def _run(module: str) -> Any:
    modules: dict[str, Callable[[], Any]] = {
        "sinks_postgres": sinks_postgres.measure,
        "sinks_mysql": sinks_mysql.measure,
        "sinks_sqlite": sinks_sqlite.measure_alone,
        "sinks_files": sinks_files.measure,
    }
    return modules[module]()


def _database(name: str, speeds: Speeds, aim: float | None) -> list[str]:
    found = speeds.per_second
    plain, best, ours = found[JDBC], found[JDBC_REWRITE], found[SINK]
    rows = [
        (f"{name}, append, against Spark's JDBC writer", plain, ours, aim),
        (f"{name}, append, against JDBC with statements joined", best, ours, None),
        (f"{name}, append in 2 parts, against the same", best, found[SINK_TWO], None),
        (f"{name}, upsert, against JDBC append", plain, found[UPSERT], None),
    ]
    return [_row(*row) for row in rows]


def _sqlite(speeds: list[Any]) -> list[str]:
    return [
        _row(f"SQLite, {s.what}, against pandas by hand", s.by_hand, s.sink, None) for s in speeds
    ]


def _files(speeds: Any) -> list[str]:
    return [
        _row(
            f"files, {form}, against Spark's file sink",
            speeds.spark[form],
            speeds.holdfast[form],
            FILES_AIM if form == "parquet" else None,
        )
        for form in speeds.spark
    ]


def _row(what: str, plain: float, ours: float, aim: float | None) -> str:
    ratio = ours / plain
    wanted = "" if aim is None else f"≥ {aim:g}" + ("" if ratio >= aim else " (short of it)")
    return PER_SECOND.format(what, plain, ours, ratio, wanted)


def _contrast(outcomes: dict[str, contrast.Outcome]) -> list[str]:
    names = {"plain": "plain Spark, `foreachBatch` append", "job": "the same as a job"}
    return [
        f"{contrast.ROWS:,} rows into SQLite, `kill -9` as soon as new rows are visible:",
        "",
        "| what | kills | rows lost | rows twice or more |",
        "|---|---:|---:|---:|",
        *(f"| {names[n]} | {o.kills} | {o.lost} | {o.repeated} |" for n, o in outcomes.items()),
    ]
