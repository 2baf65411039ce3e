"""PostgreSQL: prepared transactions, or idempotent upserts."""
