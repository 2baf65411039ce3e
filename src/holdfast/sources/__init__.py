"""Sources for jobs. Any streaming DataFrame is one; these are made here.

from holdfast import sources

job.source("orders", sources.generator(rows_per_second=1000))
job.source("clicks", sources.kafka("broker:9092", "clicks"))
"""

from holdfast.sources.generator import Generator, generator
from holdfast.sources.kafka.source import KafkaSource, kafka

__all__ = ["Generator", "KafkaSource", "generator", "kafka"]
