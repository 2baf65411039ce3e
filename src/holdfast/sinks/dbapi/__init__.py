"""Any database with a DB-API 2.0 driver: write-ahead with a marker row."""
