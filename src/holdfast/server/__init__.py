"""HTTP inside the process that runs a job, and the files by which others find it.

Paths and shapes are Flink's, so that its command line and its dashboards can talk to a job.
"""
