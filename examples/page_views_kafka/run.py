"""Page views from Kafka to Kafka, exactly once, with a crash in the middle.

    python examples/page_views_kafka/run.py

Starts a broker, sends page views, runs ``job.py`` under ``holdfast run``, and shows what a reader
of committed records sees of the counts. When it has seen some, the job's process is killed with
``kill -9``; its supervisor starts another. In the end the counts are compared with a recount.
``docs/kafka.md`` does the same by hand, step by step. Nothing is left when this ends.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from broker import create_topics
from judging import judge
from telling import Watch, say

from holdfast.cli.demo.children import Child, Children
from holdfast.cli.failures import guarded
from holdfast.errors import UsageError
from holdfast.testing.kafka import kafka_broker
from holdfast.testing.kafka_connector import connector_jars

HERE = Path(__file__).parent
HOLDFAST = (sys.executable, "-m", "holdfast.cli")


@guarded
def main(
    views: Annotated[int, typer.Option(min=1, help="How many page views are sent.")] = 20_000,
    seconds: Annotated[int, typer.Option(min=0, help="In which time.")] = 20,
) -> None:
    """Count page views from Kafka to Kafka, kill the job on the way, compare with a recount."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # tidies up, as Ctrl-C does
    say("0. Jars of a broker and of Spark's connector. The first time, Maven brings them.")
    jars = ",".join(map(str, connector_jars()))
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-page-views-") as made,
        kafka_broker(f"{made}/kafka") as broker,
        Children(Path(made), Path(made)) as children,
    ):
        create_topics(broker)
        tell(children, Path(made), broker.servers, jars, views, seconds)
        raise typer.Exit(judge(broker.servers, views))


def tell(
    children: Children, directory: Path, servers: str, jars: str, views: int, seconds: int
) -> None:
    """The story up to the end of the job."""
    say(f"1. A broker at {servers}. {views:,} page views go to the topic `views`.")
    script = [sys.executable, str(HERE / "producer.py"), servers, str(views), str(seconds)]
    sending = children.start(script, directory / "producer.out")
    say("2. holdfast run job.py: parse them, count them per app, counts to the topic `counts`.")
    job = start_job(children, servers, jars, directory)
    with Watch(servers, job, directory / "events") as watch:
        watch.until(lambda: watch.counted > 0)
        if watch.counted == views:
            raise UsageError("all was counted before the job was killed", hint="Send more --views.")
        say("3. kill -9 of the job's process, in the middle of its work.")
        os.kill(runner(directory), signal.SIGKILL)
        watch.until(lambda: watch.counted >= views)
        sending.finish()
        say("4. All page views are counted. Two more checkpoints, should anything come twice.")
        watch.two_more_checkpoints()
    job.stop()


def start_job(children: Children, servers: str, jars: str, directory: Path) -> Child:
    """With a supervisor; its events are JSON, a line each."""
    command = [*HOLDFAST, "run", str(HERE / "job.py"), "--json", "--set", f"spark.jars={jars}"]
    return children.start([*command, "--", servers, str(directory)], directory / "events")


def runner(directory: Path) -> int:
    """The process in which the job runs."""
    listed = subprocess.run(
        [*HOLDFAST, "list", "--json"],
        env={**os.environ, "HOLDFAST_HOME": str(directory / "home")},
        capture_output=True,
        check=True,
    )
    return int(json.loads(listed.stdout)[0]["pid"])


if __name__ == "__main__":
    typer.run(main)
