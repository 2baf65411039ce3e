"""Which files a version needs, decided on names alone."""

from __future__ import annotations

from holdfast.querylog.changelog import StateVersion
from holdfast.querylog.versions import (
    VersionFiles,
    hashmap_version,
    is_gapless,
    lineage_version,
    rocksdb_version,
)

A, B, C, D = (StateVersion(v, f"id{v}") for v in (1, 2, 3, 4))


def test_without_a_snapshot_every_delta_is_needed() -> None:
    names = {"1.delta", "2.delta", "3.delta"}
    assert hashmap_version(names, 3) == VersionFiles(None, ("1.delta", "2.delta", "3.delta"))


def test_a_gap_ends_the_search() -> None:
    names = {"1.snapshot", "2.delta", "4.delta", "5.delta"}
    assert hashmap_version(names, 5) == VersionFiles(None, ("3.delta", "4.delta", "5.delta"))
    assert hashmap_version(set(), 10**12) == VersionFiles(None, (f"{10**12}.delta",))


def test_the_newest_snapshot_not_younger_than_the_version_is_the_base() -> None:
    names = {"2.snapshot", "4.snapshot", "9.snapshot", "5.delta", "6.delta"}
    assert hashmap_version(names, 6) == VersionFiles("4.snapshot", ("5.delta", "6.delta"))


def test_a_snapshot_of_the_version_itself_is_enough() -> None:
    assert rocksdb_version({"6.zip", "6.changelog"}, 6) == VersionFiles("6.zip", ())


def test_checksum_files_and_ids_are_not_mistaken_for_versions() -> None:
    names = {"6.zip.crc", ".6.zip.crc", "6_abc.zip", "6.changelog", "5.zip"}
    assert rocksdb_version(names, 6) == VersionFiles("5.zip", ("6.changelog",))


def test_a_lineage_is_followed_back_to_its_newest_zip() -> None:
    names = {"1_id1.zip", "3_id3.zip", "3_other.zip"}
    assert lineage_version(names, D, [A, B, C]) == VersionFiles("3_id3.zip", ("4_id4.changelog",))


def test_a_zip_of_another_attempt_is_not_used() -> None:
    names = {"1_id1.zip", "3_other.zip"}
    found = lineage_version(names, D, [A, B, C])
    assert found == VersionFiles(
        "1_id1.zip", ("2_id2.changelog", "3_id3.changelog", "4_id4.changelog")
    )


def test_a_lineage_from_the_first_version_needs_no_zip() -> None:
    assert lineage_version(set(), B, [A]) == VersionFiles(
        None, ("1_id1.changelog", "2_id2.changelog")
    )


def test_a_lineage_without_base_cannot_be_loaded() -> None:
    assert lineage_version(set(), D, [C]) is None


def test_a_lineage_must_count_up_by_one() -> None:
    assert is_gapless([A, B, C], D)
    assert is_gapless([], D)
    assert not is_gapless([A, C], D)
    assert not is_gapless([A, B], D)
