from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.querylog.sourcelog import Chain, chain, entries_after, log_offset


def test_without_a_compact_entry_all_are_needed() -> None:
    assert chain({"0", "1", "2", "3"}, 2) == Chain(("0", "1", "2"))


def test_the_newest_compact_entry_stands_for_all_before_it() -> None:
    names = {"0", "1", "2.compact", "3", "4", "5.compact", "6"}
    assert chain(names, 4) == Chain(("2.compact", "3", "4"))
    assert chain(names, 5) == Chain(("5.compact",))


def test_cleaned_up_entries_are_reported_missing() -> None:
    assert chain({"5.compact", "6"}, 4) == Chain((), missing="4")
    assert chain({"1", "3", "4"}, 4) == Chain(("3", "4"), missing="2")


@given(st.integers(0, 60), st.integers(2, 7))
def test_a_chain_covers_every_entry_once(upto: int, interval: int) -> None:
    names = {f"{n}.compact" if (n + 1) % interval == 0 else str(n) for n in range(80)}
    found = chain(names, upto)
    assert found.missing is None
    assert len(found.names) <= interval


def test_later_entries_are_found() -> None:
    assert set(entries_after({"1", "2.compact", "3", "junk"}, 1)) == {"2.compact", "3"}


def test_only_file_sources_have_log_offsets() -> None:
    assert log_offset('{"logOffset":7}') == 7
    assert log_offset('{"topic":{"0":5}}') is None
    assert log_offset("12") is None
    assert log_offset("not json") is None
    assert log_offset(None) is None
