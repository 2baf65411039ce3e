"""Send page views as JSON to the topic ``views``; the key is the user.

python examples/page_views_kafka/producer.py SERVERS [VIEWS] [SECONDS]
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import Producer

TOPIC = "views"
APPS = ("mail", "maps", "news", "shop")
USERS = 50
PAGES = 20


def page_views(count: int) -> Iterator[dict[str, str]]:
    """Always the same ones."""
    dice = random.Random(7)
    for _ in range(count):
        yield {
            "user": f"user-{dice.randrange(USERS)}",
            "app": dice.choices(APPS, (1, 2, 3, 4))[0],
            "page": f"page-{dice.randrange(PAGES)}",
        }


def recount(count: int) -> Counter[str]:
    """What the job should come to, counted without Kafka and without Spark."""
    return Counter(view["app"] for view in page_views(count))


def produce(servers: str, count: int, seconds: float) -> None:
    """Send them evenly over that time."""
    # Idempotent: a view that is sent again after a lost answer is not there twice.
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 3}
    producer = Producer(settings)
    begun = time.monotonic()
    for number, view in enumerate(page_views(count)):
        producer.produce(TOPIC, key=view["user"], value=json.dumps(view))
        due = begun + seconds * number / count
        producer.poll(max(0.0, due - time.monotonic()))
    if producer.flush(60):
        raise SystemExit("the broker has not taken all page views")


if __name__ == "__main__":
    servers, *rest = sys.argv[1:] or ["127.0.0.1:9092"]
    views, seconds = (*map(int, rest), *(1000, 10)[len(rest) :])
    produce(servers, views, seconds)
    print(f"sent {views:,} page views")
