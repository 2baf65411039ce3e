"""When a region waits at its gate, and when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.protocol.flow import Flow
from holdfast.runtime.channels import Channel, Segment, encode_segment
from holdfast.runtime.gates import Gates, RegionGate
from holdfast.storage import open_storage

FOREVER = 3600.0


class Waits(Gates):
    """Gates at which nobody waits, but that know who would."""

    waited: int = 0

    def wait_for_input(self, region: str, starts: Mapping[str, int], seconds: float) -> None:
        self.waited += 1


def standing(home: Path, kind: type[Gates], segments: int) -> Gates:
    """One channel with some segments, of which its reader has read none."""
    channel = Channel("a", open_storage(home / "a"))
    for batch in range(segments):
        entry = encode_segment(Segment(batch, f"{batch}-x", (("x.parquet", 1),)))
        channel.storage.publish(f"log/{batch}", entry)
    channel.recover(segments - 1)
    flow = Flow({"a": (), "r": ("a",)}, {"a": segments - 1, "r": -1}, {"a": {}, "r": {}})
    return kind(flow, {"a": channel}, {"a": ["r"]}, lambda _: None)


def rounds(gates: Gates, is_new: bool, starts: list[int]) -> list[int]:
    gate = RegionGate(gates, "r", ["a"], may_wait=True, batch_bytes=10, is_new=is_new)
    return [gate.next_end("a", start) for start in starts]


def test_nobody_waits_at_channels_that_have_ended(tmp_path: Path) -> None:
    gates = standing(tmp_path, Gates, segments=2)
    gates.end("a")
    gates.wait_for_input("r", {"a": 2}, FOREVER)


def test_a_region_without_a_batch_waits_for_its_first_segment(tmp_path: Path) -> None:
    gates = standing(tmp_path, Waits, segments=0)
    assert rounds(gates, is_new=True, starts=[0]) == [0]
    assert isinstance(gates, Waits)
    assert gates.waited == 1


def test_a_region_that_goes_on_answers_its_first_round_at_once(tmp_path: Path) -> None:
    gates = standing(tmp_path, Waits, segments=2)
    assert rounds(gates, is_new=False, starts=[2, 2]) == [2, 2]
    assert isinstance(gates, Waits)
    assert gates.waited == 1


def test_a_round_behind_news_answers_at_once(tmp_path: Path) -> None:
    gates = standing(tmp_path, Waits, segments=2)
    assert rounds(gates, is_new=True, starts=[0, 2, 2]) == [2, 2, 2]
    assert isinstance(gates, Waits)
    assert gates.waited == 2
