"""How Spark comes to the jars of a source, before it starts."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from holdfast.spark.connectors import KAFKA, connector_settings, could_not_fetch, no_connector

VERSION = "4.3.0"
PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
PACKAGES = "spark.jars.packages"


def settings(home: Path, **given: str) -> dict[str, str]:
    named = {key.replace("_", "."): value for key, value in given.items()}
    return connector_settings([KAFKA], named, VERSION, home)


def jar(path: Path, *entries: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            archive.writestr(entry, b"")
    return path


PROVIDER = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"


def test_spark_is_told_to_fetch_what_nobody_gives(tmp_path: Path) -> None:
    assert settings(tmp_path) == {PACKAGES: PACKAGE}
    assert connector_settings([], {}, VERSION, tmp_path) == {}


def test_packages_of_the_user_are_kept(tmp_path: Path) -> None:
    found = settings(tmp_path, spark_jars_packages="org.postgresql:postgresql:42.7.3")
    assert found == {PACKAGES: f"org.postgresql:postgresql:42.7.3,{PACKAGE}"}


def test_a_package_that_the_user_names_is_not_fetched_in_another_version(tmp_path: Path) -> None:
    older = PACKAGE.replace("4.3.0", "4.2.0")
    assert settings(tmp_path, spark_jars_packages=f"a:b:1, {older}") == {}


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "hdfs://host/"])
def test_a_given_jar_is_known_by_its_name(tmp_path: Path, prefix: str) -> None:
    given = f"{prefix}/jars/x.jar,{prefix}/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"
    assert settings(tmp_path, spark_jars=given) == {}


def test_a_jar_with_everything_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    fat = jar(tmp_path / "app.jar", "app/Main.class", PROVIDER)
    assert settings(tmp_path, spark_jars=str(fat)) == {}
    assert settings(tmp_path, spark_jars=f"file:{fat}") == {}
    other = jar(tmp_path / "other.jar", "app/Main.class")
    assert settings(tmp_path, spark_jars=f"{other},/not/there.jar") == {PACKAGES: PACKAGE}


def test_a_jar_on_the_class_path_is_found(tmp_path: Path) -> None:
    lib = jar(tmp_path / "lib" / "all.jar", PROVIDER).parent
    key = "spark.driver.extraClassPath"
    assert connector_settings([KAFKA], {key: f"/a.jar:{lib}/*"}, VERSION, tmp_path) == {}


def test_a_jar_among_sparks_own_is_found(tmp_path: Path) -> None:
    jar(tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.3.0.jar")
    assert settings(tmp_path) == {}


def test_what_is_missing_is_told_with_the_lines_to_add() -> None:
    error = no_connector(KAFKA, VERSION, ["kafka-clients"])
    assert error.message.endswith("kafka: kafka-clients")
    assert f'"{PACKAGES}" = "{PACKAGE}" in holdfast.toml' in str(error)
    assert f"holdfast run --set {PACKAGES}={PACKAGE}" in str(error)
    assert '"spark.jars" = ' in str(error)


def test_what_could_not_be_fetched_is_told_with_all_the_jars_that_are_needed() -> None:
    error = could_not_fetch([KAFKA], VERSION)
    assert PACKAGE in error.message
    for name in ("kafka-clients", "commons-pool2", "spark-token-provider-kafka-0-10_2.13"):
        assert name in str(error)


def test_a_job_with_several_kafka_sources_needs_one_connector() -> None:
    assert list(dict.fromkeys([KAFKA, KAFKA])) == [KAFKA]
