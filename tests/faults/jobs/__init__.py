"""Jobs that are killed: how they are described, run in a process, and judged by a recount."""
