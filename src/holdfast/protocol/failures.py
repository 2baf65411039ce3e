"""Why checkpoints fail, and when that fails the job."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """A reason has a sentence, and counts against the tolerance or not."""

    EXPIRED = ("Checkpoint expired before completing.", True)
    SINK_WAITS = ("Checkpoint expired while a sink could not commit an older one.", False)
    DECLINED = ("A region declined the checkpoint.", True)
    SNAPSHOT_FAILED = ("A snapshot failed in its asynchronous phase.", True)
    TRIGGER_FAILED = ("The checkpoint could not be triggered.", True)
    STORE_FAILED = ("The checkpoint could not be stored.", True)
    SUBSUMED = ("A newer checkpoint completed first.", False)
    REGION_FAILED = ("A region failed.", False)
    JOB_STOPPED = ("The job was stopped.", False)
    TOO_MANY_REQUESTS = ("The maximum number of queued checkpoint requests was exceeded.", False)

    def __init__(self, sentence: str, counted: bool) -> None:
        self.sentence = sentence
        self.counted = counted


class Verdict(Enum):
    """What a failed checkpoint means for the job."""

    IGNORED = "does not count"
    TOLERATED = "counts, within the tolerance"
    EXCEEDED = "the tolerance is exceeded: the job fails"


class Tolerance:
    """Counts consecutive failures, each checkpoint once; a success starts anew.

    A checkpoint older than the last one that succeeded is past and does not count.
    """

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._failed: set[int] = set()
        self._succeeded = 0

    def failed(self, checkpoint: int, reason: Reason) -> Verdict:
        """Count a failure."""
        if not reason.counted or checkpoint in self._failed or checkpoint < self._succeeded:
            return Verdict.IGNORED
        self._failed.add(checkpoint)
        return Verdict.EXCEEDED if len(self._failed) > self._allowed else Verdict.TOLERATED

    def succeeded(self, checkpoint: int) -> None:
        """Start counting anew."""
        self._succeeded = max(self._succeeded, checkpoint)
        self._failed.clear()
