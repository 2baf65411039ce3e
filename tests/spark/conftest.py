"""Runs that several test modules look at. Each is made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from pyspark.sql import SparkSession

from tests.spark.backends import Backend
from tests.spark.running import Base, Run, run_base, run_undisturbed
from tests.spark.workloads import Workload

BaseOf = Callable[[Workload, Backend], Base]
UndisturbedRunOf = Callable[[Workload], Run]


@pytest.fixture(scope="session")
def base_of(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> BaseOf:
    @cache
    def make(workload: Workload, backend: Backend) -> Base:
        home = tmp_path_factory.mktemp(f"{workload.name}-{backend.name}-")
        return run_base(spark, workload, backend, home)

    return make


@pytest.fixture(scope="session")
def undisturbed_run_of(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> UndisturbedRunOf:
    @cache
    def make(workload: Workload) -> Run:
        return run_undisturbed(spark, workload, tmp_path_factory.mktemp(f"{workload.name}-"))

    return make
