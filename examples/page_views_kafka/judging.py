"""Is it right? What is in the topic, read anew, against a recount of what was sent."""

import json

from producer import recount
from reader import COMMITTED, TOPIC, UNCOMMITTED, Record, read
from telling import console, say

from holdfast.cli.tables import table


def judge(servers: str, views: int) -> int:
    """The exit code: 0 if every page view counts once, and every count was sent once."""
    records = read(servers, TOPIC, COMMITTED)
    right, found = recount(views), newest_counts(records)
    rows = table("app", "sent", "counted", "")
    for app in sorted(right | found):
        same = right[app] == found.get(app, 0)
        rows.add_row(app, f"{right[app]:,}", f"{found.get(app, 0):,}", "right" if same else "WRONG")
    console.print(rows)
    again = repeated(records)
    every = len(read(servers, TOPIC, UNCOMMITTED))
    console.print(
        f"{len(records)} counts in the topic, {len(again)} of them out of order or twice; "
        f"{every - len(records)} more in aborted transactions.",
        soft_wrap=True,
    )
    if found != right or again:
        say("That must not happen.")
        return 1
    say("Each page view counts once, each count was sent once.")
    return 0


def newest_counts(records: list[Record]) -> dict[str, int]:
    """Records of a key are in one partition, in their order: the last one counts."""
    return {record.key: count_in(record) for record in records}


def repeated(records: list[Record]) -> list[Record]:
    """An app's counts only grow. One that does not was sent before."""
    highest: dict[str, int] = {}
    found = []
    for record in records:
        if count_in(record) <= highest.get(record.key, 0):
            found.append(record)
        highest[record.key] = max(count_in(record), highest.get(record.key, 0))
    return found


def count_in(record: Record) -> int:
    return int(json.loads(record.value)["views"])
