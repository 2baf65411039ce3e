"""The benchmark's results, section by section."""

from __future__ import annotations

from pathlib import Path

from bench.report import HEAD, put, with_section

ORDER = ("Jobs", "Kafka", "Copies of query logs")
STAMP = "2026-02-02, 2 cores."
OLD = """\
# Measured by `make bench`

2026-01-01, 4 cores, Linux. The machine is shared and noisy: trust ratios.

## Jobs

| what |
|---|
| 1 |

## Copies of query logs

fast
"""


def test_a_part_replaces_its_own_section_and_no_other() -> None:
    first = with_section("", "## Jobs\n\nold\n", "2026-01-01, 4 cores.", ORDER)
    both = with_section(first, "## Kafka\n\nquick\n", STAMP, ORDER)
    again = with_section(both, "## Kafka\n\nquicker\n", "2026-03-03, 2 cores.", ORDER)
    assert again == (
        f"{HEAD}\n## Jobs\n\n2026-01-01, 4 cores.\n\nold\n"
        "\n## Kafka\n\n2026-03-03, 2 cores.\n\nquicker\n"
    )


def test_sections_keep_the_order_of_the_parts_whichever_is_measured_first() -> None:
    text = with_section(OLD, "## Kafka\n\nquick\n", STAMP, ORDER)
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["## Jobs", "## Kafka", "## Copies of query logs"]


def test_one_date_for_all_becomes_that_of_each_section_that_stays() -> None:
    text = with_section(OLD, "## Kafka\n\nquick\n", STAMP, ORDER)
    assert text.startswith(HEAD)
    assert "## Jobs\n\n2026-01-01, 4 cores, Linux.\n\n| what |\n|---|\n| 1 |\n" in text
    assert "## Kafka\n\n2026-02-02, 2 cores.\n\nquick\n" in text
    assert text.endswith("## Copies of query logs\n\n2026-01-01, 4 cores, Linux.\n\nfast\n")


def test_the_file_is_written_at_once(tmp_path: Path) -> None:
    results = tmp_path / "results.md"
    put(results, "## Kafka\n\nquick\n", STAMP, ORDER)
    put(results, "## Jobs\n\nslow\n", STAMP, ORDER)
    assert results.read_text().index("slow") < results.read_text().index("quick")
