"""Random histories: a shared file goes when nobody uses it any more, and never before."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.retention import SharedFiles, subsumed

FILES = st.frozensets(st.sampled_from("abcdef"), max_size=4)


@dataclass(slots=True)
class Job:
    """A disk, and checkpoints that put files onto it."""

    retained: int
    disk: set[str] = field(default_factory=set)
    completed: dict[int, frozenset[str]] = field(default_factory=dict)
    in_flight: dict[int, frozenset[str]] = field(default_factory=dict)
    shared: SharedFiles = field(default_factory=SharedFiles)
    next_id: int = 1

    def step(self, kind: str, which: int, files: frozenset[str]) -> None:
        running = sorted(self.in_flight)
        match kind:
            case "begin":
                self.in_flight[self.next_id] = frozenset()
                self.next_id += 1
            case "crash":
                self.crash()
            case "hold" if running:
                self.hold(running[which % len(running)], files)
            case "complete" if running:
                self.complete(running[which % len(running)])
            case "abort" if running:
                self.abort(running[which % len(running)])

    def hold(self, checkpoint: int, files: frozenset[str]) -> None:
        """A full checkpoint never comes here: it uses no shared file."""
        self.shared.hold(checkpoint, files)
        self.in_flight[checkpoint] |= files
        self.disk |= files

    def complete(self, checkpoint: int) -> None:
        self.completed[checkpoint] = self.in_flight.pop(checkpoint)
        for older in [n for n in self.in_flight if n < checkpoint]:
            self.abort(older)
        for old in subsumed(self.completed, [], self.retained):
            del self.completed[old]
            self.delete(self.shared.release(old))

    def abort(self, checkpoint: int) -> None:
        del self.in_flight[checkpoint]
        self.delete(self.shared.release(checkpoint))

    def crash(self) -> None:
        self.in_flight.clear()
        self.shared = SharedFiles(self.completed)
        self.delete(self.shared.orphans(self.disk))

    def delete(self, files: set[str]) -> None:
        assert files <= self.disk, "given up twice"
        self.disk -= files

    @property
    def needed(self) -> set[str]:
        return set().union(*self.completed.values(), *self.in_flight.values())


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.sampled_from(
                ["begin", "hold", "begin", "hold", "hold", "complete", "abort", "crash"]
            ),
            st.integers(0, 3),
            FILES,
        ),
        max_size=60,
    ),
)
def test_exactly_the_files_of_retained_and_unfinished_checkpoints_stay(
    retained: int, history: list[tuple[str, int, frozenset[str]]]
) -> None:
    job = Job(retained)
    for step in history:
        newest = max(job.completed, default=0)
        job.step(*step)
        assert job.disk == job.needed == job.shared.used
        assert len(job.completed) <= retained
        assert max(job.completed, default=0) >= newest, "the newest one is never given up"


@given(st.sets(st.integers(1, 50)), st.integers(1, 4))
def test_the_newest_checkpoints_are_retained(completed: set[int], retained: int) -> None:
    given_up = subsumed(completed, [], retained)
    kept = completed - set(given_up)
    assert len(kept) == min(retained, len(completed))
    assert given_up == sorted(given_up)
    assert all(old < new for old in given_up for new in kept)
