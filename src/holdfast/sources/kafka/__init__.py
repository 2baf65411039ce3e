"""Kafka topics, read by Spark's own connector."""
