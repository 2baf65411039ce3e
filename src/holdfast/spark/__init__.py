"""Spark's JVM. The only package that may call into it."""
