"""Gives SQL to a Flink cluster. Run by the Python that has Flink, which has nothing else of ours.

Reads orders from its input, a line of JSON each: settings and statements, of which the last one
starts a job. Answers each with a line that has the job's id.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

ANSWER = "job "


def submit(order: dict[str, Any]) -> str:
    table = importlib.import_module("pyflink.table")
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    for name, value in order["settings"].items():
        environment.get_config().set(name, value)
    for statement in order["statements"]:
        result = environment.execute_sql(statement)
    return str(result.get_job_client().get_job_id())


if __name__ == "__main__":
    for line in sys.stdin:
        print(ANSWER + submit(json.loads(line)), flush=True)
