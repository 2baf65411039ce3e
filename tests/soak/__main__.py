"""``make soak``: the long version, by default 400 faults by a seed of chance."""

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--faults", type=int, default=300, help="with Spark in one process")
    parser.add_argument("--on-cluster", type=int, default=100, help="then on a cluster")
    parser.add_argument("--kafka", action="store_true", help="the job from Kafka to Kafka")
    parser.add_argument("--epochs", type=int, default=1000, help="with --kafka: at least so many")
    parser.add_argument("--directory", type=Path, help="kept; else a temporary one")
    parser.add_argument("--only", metavar="FAULT", help="nothing but this one")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    say = partial(print, flush=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as temporary:
        root = (chosen.directory or Path(temporary)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        if chosen.kafka:
            with kafka_broker() as broker:
                soak_kafka(root, broker, chosen.seed, 0, chosen.epochs, say, chosen.only)
        else:
            with postgres_server() as db:
                soak(root, db, chosen.seed, chosen.faults, chosen.on_cluster, say, chosen.only)


if __name__ == "__main__":
    main()
