"""Finding things in the JVM that have no plain Java name."""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """A Java ``Class``; Spark's jars are known to the thread's loader only."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)


def scala_object(package: Any, name: str) -> Any:
    """A Scala ``object``."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def string_map(jvm: Any, values: dict[str, str]) -> Any:
    """Options as Spark's sources take them."""
    options = jvm.java.util.HashMap()
    for name, value in values.items():
        options.put(name, value)
    return jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(options)
