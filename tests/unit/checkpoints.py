"""The metadata of a checkpoint of one region, ``all``."""

from __future__ import annotations

from holdfast.checkpoints.metadata import CheckpointMetadata, RegionSnapshot, Transaction
from holdfast.settings import Mode


def metadata_of(
    job_id: str, number: int, cut: int, *transactions: Transaction, attempt: int = 1
) -> CheckpointMetadata:
    return CheckpointMetadata(
        job_id=job_id,
        job_name="views",
        id=number,
        kind="checkpoint",
        mode=Mode.EXACTLY_ONCE.value,
        unaligned=False,
        full=True,
        triggered=1.0,
        completed=2.0,
        attempt=attempt,
        holdfast="0",
        spark="4",
        regions=(RegionSnapshot("all", cut, "append", (), {}),),
        in_flight=(),
        transactions=transactions,
        user={},
        statistics={},
    )
