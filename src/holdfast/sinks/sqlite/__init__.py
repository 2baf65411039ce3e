"""SQLite, the embedded default: write-ahead, or idempotent."""
