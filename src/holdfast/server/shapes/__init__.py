"""What the server answers: pure functions from what is known to JSON documents.

Times are milliseconds since 1970, durations milliseconds, sizes bytes.
"""
