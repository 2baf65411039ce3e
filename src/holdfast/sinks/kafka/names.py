"""What a sink is called at the broker: its transactional ids, and the topic with its markers.

Both begin with a prefix, so that rights can be given by it. There is one id for each part of an
epoch, used again for every epoch: their number is the largest parallelism that the sink ever had.
"""

from __future__ import annotations

import re

from holdfast.errors import UsageError

_LONGEST = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")


def base_name(prefix: str | None, job_id: str, sink: str) -> str:
    """The topic with the markers of a sink, and how its transactional ids begin."""
    name = f"{prefix or f'holdfast-{job_id}'}-{sink}"
    if len(name) > _LONGEST:
        raise UsageError(
            f"the name has {len(name)} characters, Kafka allows {_LONGEST}: {name}",
            hint="Give a shorter transactional_id_prefix, or the sink a shorter uid.",
            sink=sink,
        )
    return name


def transactional_id(base: str, part: int) -> str:
    """The id by which the broker knows the writer of a part."""
    return f"{base}-{part}"


def refuse_prefix(prefix: str | None) -> None:
    """It becomes the beginning of a topic's name."""
    if prefix is not None and not _LEGAL.fullmatch(prefix):
        raise UsageError(
            f"this cannot be the beginning of a topic's name: {prefix!r}",
            hint="transactional_id_prefix has letters, digits, '.', '_' and '-'.",
        )
