"""Decisions and their data: graph, flow of barriers, checkpoints, retention, failures.

Nothing in here touches a disk, a clock, a thread or Spark. Time comes in as seconds since 1970.
"""
