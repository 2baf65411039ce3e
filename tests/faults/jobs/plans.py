"""What a seed gives: a job, the modes it runs in, when and how it is killed, how it comes back.

All is drawn before the job starts, so that what a seed covers can be said without running it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.faults.jobs.specs import JobSpec, random_spec

_PREFIX = "execution.checkpointing"
ALIGNED, CONCURRENT, UNALIGNED, TIMEOUT = "aligned", "concurrent", "unaligned", "timeout"
MODES: Mapping[str, Mapping[str, str]] = {
    name: {
        f"{_PREFIX}.unaligned.enabled": unaligned,
        f"{_PREFIX}.aligned-checkpoint-timeout": timeout,
        f"{_PREFIX}.max-concurrent-checkpoints": concurrent,
    }
    for name, unaligned, timeout, concurrent in [
        (ALIGNED, "false", "0ms", "1"),
        (CONCURRENT, "false", "0ms", "3"),
        (UNALIGNED, "true", "0ms", "1"),
        (TIMEOUT, "true", "100ms", "1"),
    ]
}
"""A job may come back in another one than it was killed in."""
BACKENDS = ["hashmap", "rocksdb"]
BACKLOGS = [{}, {"holdfast.channel.max-batch-bytes": "1b"}]
"""A reader that takes one segment at a time is soon behind, and rows are in flight."""
_INLINE = f"{_PREFIX}.data-inline-threshold"
SMALL_FILES = ["20kb", "0b"]
"""Below that a file goes into ``_metadata``: all of these jobs' files would, unlike real ones."""
EVERYTHING = {
    *BACKENDS,
    *MODES,
    *("full", "incremental", "fan-in", "fan-out", "join", "count", "behind", "inline", "beside"),
    *("process", "machine", "resumed", "restored"),
}
KILLS = 2
DEFAULT_SEEDS = "25,57"
"""Together they cover everything; ``tests/unit/test_random_jobs.py`` sees to it."""


@dataclass(frozen=True, slots=True)
class Death:
    """The end of one life."""

    checkpoints: int
    """So many that have more than the one before must be completed."""
    seconds: float
    """After that."""
    victim: str
    """``process``: its JVM notices by itself; ``machine``: everything at once."""
    comes_back: str
    """``resumed``: plainly; ``restored``: from the newest checkpoint."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One random job and all that happens to it."""

    seed: int
    spec: JobSpec
    modes: tuple[str, ...]
    """One for each life: one more than there are deaths."""
    deaths: tuple[Death, ...]

    def covers(self) -> set[str]:
        """Which of ``EVERYTHING`` is in it."""
        settings = self.spec.settings
        found = {settings["state.backend.type"], *self.modes}
        found.add("incremental" if settings[f"{_PREFIX}.incremental"] == "true" else "full")
        found.add("beside" if settings[_INLINE] == "0b" else "inline")
        found |= {death.victim for death in self.deaths}
        found |= {death.comes_back for death in self.deaths}
        if "holdfast.channel.max-batch-bytes" in settings:
            found.add("behind")
        return found | _shapes(self.spec)


def _shapes(spec: JobSpec) -> set[str]:
    """``fan-in``: one region reads two channels; ``fan-out``: two regions read one."""
    channels = {region.uid for region in spec.regions}
    read = [[uid for uid in region.reads if uid in channels] for region in spec.regions]
    readers = Counter(uid for uids in read for uid in uids)
    kinds = {region.kind for region in spec.regions} & EVERYTHING
    return (
        kinds
        | ({"fan-in"} if any(len(uids) > 1 for uids in read) else set())
        | ({"fan-out"} if any(times > 1 for times in readers.values()) else set())
    )


def plan_of(seed: int) -> Plan:
    """The same seed gives the same plan."""
    dice = random.Random(seed)
    settings = {
        "state.backend.type": dice.choice(BACKENDS),
        f"{_PREFIX}.incremental": dice.choice(["true", "false"]),
        f"{_PREFIX}.interval": dice.choice(["500ms", "1s", "2s"]),
        **dice.choice(BACKLOGS),
    }
    modes = [dice.choice(list(MODES)) for _ in range(KILLS + 1)]
    deaths = [
        Death(
            dice.randint(1, 3),
            dice.random(),
            dice.choice(["process", "machine"]),
            dice.choice(["resumed", "restored"]),
        )
        for _ in range(KILLS)
    ]
    settings[_INLINE] = dice.choice(SMALL_FILES)
    return Plan(seed, replace(random_spec(seed), settings=settings), tuple(modes), tuple(deaths))


def seeds_of(text: str) -> list[int]:
    """``33,36`` or ``1-40`` or both."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
