"""Sources for jobs. Any streaming DataFrame is one; these are made here.

from holdfast import sources

job.source("orders", sources.generator(rows_per_second=1000))
"""

from holdfast.sources.generator import Generator, generator

__all__ = ["Generator", "generator"]
