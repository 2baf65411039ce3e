from __future__ import annotations

import pytest

from holdfast.protocol.ladder import (
    LADDER,
    Rung,
    Scope,
    Source,
    connected,
    members,
    merge,
    next_rung,
)
from holdfast.settings import FailureClass

RECOVERABLE = FailureClass.RECOVERABLE
ENVIRONMENT = FailureClass.ENVIRONMENT
MISSING = FailureClass.PARTITION_DATA_MISSING

# a → c ← b, c → d; e → f; g alone
JOB = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": [], "f": ["e"], "g": []}
INDIVIDUAL, REGION, ALL, BACK = LADDER


@pytest.mark.parametrize("region", ["a", "b", "c", "d"])
def test_channels_join_regions_in_both_directions_and_over_others(region: str) -> None:
    assert connected(JOB, region) == set("abcd")


def test_regions_without_a_channel_between_them_are_not_joined() -> None:
    assert connected(JOB, "e") == {"e", "f"}
    assert connected(JOB, "g") == {"g"}


def test_a_larger_scope_restarts_more_regions() -> None:
    assert members(JOB, "d", Scope.INDIVIDUAL) == {"d"}
    assert members(JOB, "d", Scope.REGION) == set("abcd")
    assert members(JOB, "d", Scope.ALL) == set("abcdefg")


@pytest.mark.parametrize("scope", Scope)
def test_a_failure_of_no_region_restarts_all(scope: Scope) -> None:
    assert members(JOB, None, scope) == set(JOB)


@pytest.mark.parametrize("kind", [RECOVERABLE, ENVIRONMENT])
@pytest.mark.parametrize("start", Scope)
def test_a_failure_begins_at_the_rung_of_its_strategy(start: Scope, kind: FailureClass) -> None:
    assert next_rung(start, kind, "a", None) == Rung(start, Source.OWN_LOGS)


def test_a_failure_of_no_region_begins_with_all() -> None:
    assert next_rung(Scope.INDIVIDUAL, RECOVERABLE, None, None) == ALL
    assert next_rung(Scope.INDIVIDUAL, RECOVERABLE, None, ALL) == BACK


def test_what_did_not_help_is_followed_by_the_next_larger_until_nothing_is_left() -> None:
    rung, climbed = None, []
    for _ in range(6):
        rung = next_rung(Scope.INDIVIDUAL, RECOVERABLE, "a", rung)
        climbed.append(rung)
    assert climbed == [INDIVIDUAL, REGION, ALL, BACK, BACK, BACK]


def test_a_strategy_that_begins_higher_climbs_from_there() -> None:
    assert next_rung(Scope.REGION, RECOVERABLE, "a", REGION) == ALL
    assert next_rung(Scope.ALL, RECOVERABLE, "a", ALL) == BACK


@pytest.mark.parametrize("last", [None, *LADDER])
@pytest.mark.parametrize("region", ["a", None])
def test_missing_data_are_only_in_a_checkpoint(region: str | None, last: Rung | None) -> None:
    assert next_rung(Scope.INDIVIDUAL, MISSING, region, last) == BACK


@pytest.mark.parametrize("last", LADDER)
@pytest.mark.parametrize("start", Scope)
def test_a_rung_never_gets_smaller(start: Scope, last: Rung) -> None:
    rung = next_rung(start, RECOVERABLE, "a", last)
    assert LADDER.index(rung) >= LADDER.index(last)
    assert LADDER.index(rung) > LADDER.index(last) or last == BACK
    assert LADDER.index(rung) >= LADDER.index(Rung(start))


def test_failures_that_wait_for_one_restart_take_the_larger_scope_and_the_deeper_source() -> None:
    for low, one in enumerate(LADDER):
        for other in LADDER[low:]:
            assert merge(one, other) == merge(other, one) == other


def test_only_all_regions_together_go_back_to_a_checkpoint() -> None:
    assert [rung.scope for rung in LADDER if rung.source is Source.CHECKPOINT] == [Scope.ALL]
