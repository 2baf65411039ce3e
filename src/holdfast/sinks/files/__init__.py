"""Files that appear exactly once: Parquet, JSON lines, CSV."""
