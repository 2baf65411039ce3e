"""Sixty faults by chance, always the same ones. ``make soak`` takes more, and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.postgres_server import PostgresServer
from tests.soak.running import soak

SEED = 6


@pytest.mark.timeout(1800)
def test_a_job_that_is_hurt_sixty_times_by_chance_counts_every_row_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    soak(tmp_path, postgres, SEED, faults=46, on_cluster=14)
