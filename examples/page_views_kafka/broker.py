"""A broker with the two topics, for the walk-through by hand: ``docs/kafka.md``.

    python examples/page_views_kafka/broker.py [PORT]

Ctrl-C ends it, and its data is gone.
"""

import signal
import sys
import time
from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.testing.kafka import KafkaBroker, kafka_broker


def create_topics(broker: KafkaBroker) -> None:
    broker.new_topic(2, "views")
    broker.new_topic(2, "counts")


def main(port: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with kafka_broker(port=port) as broker:
        create_topics(broker)
        print(f"a broker with the topics views and counts: {broker.servers}", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    try:
        with suppress(KeyboardInterrupt):
            main(int(sys.argv[1]) if len(sys.argv) > 1 else 9092)
    except HoldfastError as error:
        sys.exit(f"error {error.code}: {error}")
