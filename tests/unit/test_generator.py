from __future__ import annotations

import json
from collections.abc import Callable
from threading import Condition
from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.sources import generator
from holdfast.sources.pacing import GeneratorSteering, Pace, encode_row


class ManualClock:
    """Time passes only while someone waits, or when told to."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time

    def wait(self, changed: Condition, seconds: float) -> None:
        self.waits.append(seconds)
        self.meanwhile()
        self.time += seconds


def steered(clock: ManualClock, **changes: Any) -> GeneratorSteering:
    settings: dict[str, Any] = {"first": 0, "behind": None, "per_second": None, "per_batch": None}
    return GeneratorSteering(Pace(**{**settings, **changes}), clock)


def latest(steering: GeneratorSteering, start: int) -> int:
    return int(json.loads(steering.latest(encode_row(start)))["row"])


def newest(steering: GeneratorSteering) -> int:
    return int(json.loads(steering.newest())["row"])


def test_a_bounded_generator_has_all_rows_at_once() -> None:
    steering = steered(ManualClock(), first=5, behind=105)
    assert json.loads(steering.initial()) == {"row": 5}
    assert latest(steering, 5) == 105


def test_a_batch_has_at_most_the_rows_asked_for() -> None:
    steering = steered(ManualClock(), behind=25, per_batch=10)
    assert [latest(steering, start) for start in (0, 10, 20)] == [10, 20, 25]


def test_a_generator_without_end_goes_on() -> None:
    steering = steered(ManualClock(), per_batch=10)
    assert latest(steering, 10**15) == 10**15 + 10
    assert newest(steering) == 10**15 + 10


def test_the_rate_counts_from_the_first_question() -> None:
    clock = ManualClock()
    clock.time = 1000
    steering = steered(clock, per_second=4)
    assert latest(steering, 50) == 50
    clock.time += 2.5
    assert latest(steering, 50) == 60


def test_rows_that_could_not_be_read_in_time_are_there_later() -> None:
    clock = ManualClock()
    steering = steered(clock, per_second=10, per_batch=5)
    latest(steering, 0)
    clock.time = 100
    assert latest(steering, 0) == 5
    assert newest(steering) == 1000


def test_right_after_a_batch_nothing_new_is_said_at_once() -> None:
    clock = ManualClock()
    steering = steered(clock, behind=10)
    assert latest(steering, 0) == 10
    assert latest(steering, 10) == 10
    assert clock.waits == []


def test_asked_again_it_waits_for_the_next_row() -> None:
    clock = ManualClock()
    steering = steered(clock, per_second=4)
    assert latest(steering, 0) == 0
    assert latest(steering, 0) == 1
    assert sum(clock.waits) == pytest.approx(0.25)


def test_after_waiting_for_a_row_nothing_new_is_said_at_once_again() -> None:
    clock = ManualClock()
    steering = steered(clock, per_second=4)
    assert [latest(steering, 0), latest(steering, 0)] == [0, 1]
    clock.waits.clear()
    assert latest(steering, 1) == 1
    assert clock.waits == []


@pytest.mark.parametrize("pace", [{"behind": 10}, {"per_second": 0.01}], ids=["end", "slow"])
def test_it_never_waits_longer_than_a_second(pace: dict[str, Any]) -> None:
    clock = ManualClock()
    steering = steered(clock, **pace)
    for _ in range(3):
        answer = latest(steering, 10)
    assert answer == 10
    assert clock.time == pytest.approx(2.0)


def test_rates_that_no_float_can_hold_still_end_the_wait() -> None:
    clock = ManualClock()
    steering = steered(clock, per_second=3)
    position = 0
    for _ in range(200):
        position = latest(steering, position)
    assert position == 100
    assert clock.time == pytest.approx(100 / 3, abs=0.2)


def test_stop_ends_a_wait_and_all_later_ones() -> None:
    clock = ManualClock()
    steering = steered(clock, behind=10)
    clock.meanwhile = steering.stop
    for _ in range(5):
        assert latest(steering, 10) == 10
    assert clock.waits == [1.0]


def test_a_position_behind_the_end_stays() -> None:
    assert latest(steered(ManualClock(), behind=10), 12) == 12


def test_the_rows_of_a_batch_are_those_between_its_offsets() -> None:
    assert steered(ManualClock(), behind=10).rows('{"row": 3}', '{"row": 7}') == (3, 7)


def test_a_bounded_generator_knows_its_end() -> None:
    made = generator(rows=10, start=5)
    assert made.bounded
    assert [made.finished(encode_row(row)) for row in (5, 14, 15)] == [False, False, True]


def test_a_generator_without_end_never_finishes() -> None:
    made = generator(rows_per_batch=10)
    assert not made.bounded
    assert not made.finished(encode_row(10**18))


@pytest.mark.parametrize("offset", ["", "7", "[]", "{}", '{"row": "7"}', '{"row": null}'])
def test_another_sources_offset_is_refused(offset: str) -> None:
    with pytest.raises(UsageError, match="not an offset of a generator"):
        generator(rows=1).finished(offset)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rows": -1},
        {"rows": 1, "start": -1},
        {"rows": 1, "partitions": 0},
        {"rows_per_batch": 0},
        {"rows_per_second": 0},
        {"rows_per_second": -2},
        {"rows_per_second": float("nan")},
        {"rows_per_second": float("inf")},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        generator(**wrong)
