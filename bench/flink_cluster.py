"""A small Flink cluster to compare with.

Flink comes from PyPI into an environment that is kept from run to run, its connector by Maven.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.processes import LOOPBACK, free_ports, running

from holdfast.errors import HoldfastError
from holdfast.spark.java import find_java
from holdfast.testing import maven

VERSION = "2.3.0"
_CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
_MEMORY = {"jobmanager.memory.process.size": "1g", "taskmanager.memory.process.size": "3g"}


class NoFlink(Exception):
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class FlinkCluster:
    """A JobManager and a TaskManager."""

    home: Path
    port: int
    environment: dict[str, str]
    """Of programs that talk to it."""

    @property
    def address(self) -> dict[str, str]:
        """As settings."""
        port = str(self.port)
        return {"execution.target": "remote", "rest.address": LOOPBACK, "rest.port": port}

    def ask(self, path: str, method: str = "GET") -> Any:
        """By its REST interface."""
        request = urllib.request.Request(f"http://{LOOPBACK}:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def slots(self) -> int | None:
        """``None`` as long as it does not answer."""
        try:
            return int(self.ask("/overview")["slots-total"])
        except OSError:
            return None


@contextmanager
def flink_cluster(slots: int) -> Iterator[FlinkCluster]:
    """``NoFlink`` if there is none and it cannot be brought."""
    (package,) = flink_python().parents[1].glob("lib/python3*/site-packages/pyflink")
    port, rpc_port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="holdfast-flink-") as directory, ExitStack() as stack:
        home = Path(directory)
        _configure(home, package, slots, port, rpc_port)
        java = str(find_java(os.environ).home)
        ours = {"FLINK_CONF_DIR": str(home), "FLINK_LOG_DIR": str(home), "JAVA_HOME": java}
        cluster = FlinkCluster(home, port, {**os.environ, **ours})
        ready: dict[str, Callable[[], bool]] = {
            "jobmanager": lambda: cluster.slots() is not None,
            "taskmanager": lambda: cluster.slots() == slots,
        }
        for name, is_up in ready.items():
            script = str(package / "bin" / f"{name}.sh")
            command = ["env", *(f"{k}={v}" for k, v in ours.items()), script, "start-foreground"]
            stack.enter_context(running(command, home / name, is_up))
        yield cluster


def _configure(home: Path, package: Path, slots: int, port: int, rpc_port: int) -> None:
    shutil.copytree(package / "conf", home, dirs_exist_ok=True)
    settings = {
        **_MEMORY,
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": LOOPBACK,
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.numberOfTaskSlots": slots,
        "rest.address": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.port": port,
        "io.tmp.dirs": home / "tmp",
    }
    (home / "tmp").mkdir()
    shipped = (home / "config.yaml").read_text()
    java_options = next(line for line in shipped.splitlines() if line.strip().startswith("all:"))
    lines = [f"{name}: {value}" for name, value in settings.items()]
    lines.append(f"env.java.opts.all: {java_options.partition(':')[2].strip()}")
    (home / "config.yaml").write_text("\n".join(lines) + "\n")


def flink_python() -> Path:
    """The Python that has Flink; its packages clash with ours."""
    home = maven.cache() / f"flink-{VERSION}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        _bring([sys.executable, "-m", "venv", str(home)])
        _bring([str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"])
        (home / ".ready").touch()
    return python


def connector_jar() -> Path:
    """Of Flink's SQL for Kafka."""
    try:
        return maven.jar(_CONNECTOR)
    except HoldfastError as error:
        raise NoFlink(str(error)) from error


def _bring(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoFlink(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout)[-200:]}")
