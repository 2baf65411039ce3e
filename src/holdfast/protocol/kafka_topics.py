"""Whether topics are still those that a query began to read."""

from __future__ import annotations

from collections.abc import Mapping

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker answers that is too old to give topics ids."""


def lost_topics(known: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """A sentence for each topic that is gone, or has another id and so is another topic.

    A topic that was deleted and created again begins at offset 0. The query stands somewhere in the
    old one; at that offset the new one has other rows, or none yet.
    """
    sentences = []
    for name, id in sorted(known.items()):
        if name not in found:
            sentences.append(f"topic {name} is gone")
        elif found[name] != id and _NO_ID not in (id, found[name]):
            sentences.append(
                f"topic {name} was deleted and created again: it had the id {id} and has "
                f"{found[name]}"
            )
    return sentences
