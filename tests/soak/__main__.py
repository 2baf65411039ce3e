"""``make soak``: the long version, by a seed of chance: 400 faults, then 1000 epochs by Kafka."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from functools import partial
from pathlib import Path

from tests.services.kafka_broker import kafka_broker
from tests.services.postgres_server import postgres_server
from tests.soak.kafka_running import soak_kafka
from tests.soak.running import soak

say = partial(print, flush=True)


def main() -> None:
    chosen = arguments()
    say(f"seed {chosen.seed}")
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as temporary:
        root = (chosen.directory or Path(temporary)).resolve()
        if not chosen.kafka:
            with_database(chosen, folder(root, "database"))
        if not chosen.database:
            from_kafka_to_kafka(chosen, folder(root, "kafka"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--database", action="store_true", help="only the job with a database")
    which.add_argument("--kafka", action="store_true", help="only the job from Kafka to Kafka")
    parser.add_argument("--faults", type=int, default=300, help="with Spark in one process")
    parser.add_argument("--on-cluster", type=int, default=100, help="then on a cluster")
    parser.add_argument("--epochs", type=int, default=1000, help="by Kafka, at least")
    parser.add_argument("--directory", type=Path, help="kept; else a temporary one")
    parser.add_argument("--only", metavar="FAULT", help="nothing but this one, of one of the jobs")
    return parser.parse_args()


def folder(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True)
    return root / name


def with_database(chosen: argparse.Namespace, root: Path) -> None:
    with postgres_server() as server:
        soak(root, server, chosen.seed, chosen.faults, chosen.on_cluster, say, chosen.only)


def from_kafka_to_kafka(chosen: argparse.Namespace, root: Path) -> None:
    with kafka_broker() as broker:
        soak_kafka(root, broker, chosen.seed, 0, chosen.epochs, say, chosen.only)


if __name__ == "__main__":
    main()
