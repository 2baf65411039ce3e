"""MariaDB and MySQL: XA transactions, or idempotent upserts."""
