"""A real standalone cluster on loopback: a master and workers of one core each, to be killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyspark

from holdfast.spark.java import find_java
from tests.faults.jobs.warm import quick_java
from tests.services.processes import LOOPBACK, free_ports, running, wait_until

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_WORKER_MEMORY = "700m"
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Executor:
    """The process of an executor."""

    pid: int
    id: int
    """As Spark counts them; no number is used twice in an application."""
    worker: str
    """The worker that started it."""

    def kill(self) -> None:
        """``kill -9``."""
        kill(self.pid)

    @property
    def has_had_tasks(self) -> bool:
        """Whether it has begun one: Java names its threads, of which Linux keeps 15 letters."""
        return "Executor task launch"[:15] in _threads(self.pid)

    def python_workers(self) -> list[int]:
        """The Python processes that run its tasks, without the daemon that forks them."""
        daemons = [pid for pid in _children(self.pid) if "pyspark.daemon" in _command(pid)]
        return [worker for daemon in daemons for worker in _children(daemon)]

    def kill_python_workers(self) -> None:
        """``kill -9`` of all that there are now."""
        for worker in self.python_workers():
            kill(worker)


class SparkCluster:
    """A master and the workers that it has been given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, self._page = free_ports(2)
        self._master = ExitStack()
        self._workers: dict[str, ExitStack] = {}
        self._ports: dict[str, int] = {}

    @property
    def master(self) -> str:
        """What ``--master`` takes."""
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def workers(self) -> list[str]:
        """Those that were started and not killed."""
        return list(self._workers)

    def start(self, *workers: str) -> None:
        """Start the master and these workers; returns when all are registered."""
        options = ["--port", str(self._port), "--webui-port", str(self._page)]
        command = [*self._spark_class(f"{_DEPLOY}.master.Master"), *options]
        log = self._directory / "master.log"
        self._master.enter_context(running(command, log, lambda: self._alive() is not None))
        for name in workers:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        """Start a worker, and wait until it is registered."""
        port = free_ports(1)[0]
        options = ["--port", str(port), "--webui-port", "0", "--cores", "1"]
        options += ["--memory", _WORKER_MEMORY, "--work-dir", str(self._directory / name)]
        command = [*self._spark_class(f"{_DEPLOY}.worker.Worker"), *options, self.master]
        self._workers[name], self._ports[name] = ExitStack(), port
        log = self._directory / f"{name}.log"
        self._workers[name].enter_context(
            running(command, log, lambda: port in (self._alive() or ()))
        )

    def kill_worker(self, name: str) -> None:
        """Kill a worker and what it started at once, as when its machine dies."""
        for pid in _processes():
            if f"--port {self._ports[name]} " in _command(pid) and "worker.Worker" in _command(pid):
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        self._workers.pop(name).close()

    def executors(self) -> list[Executor]:
        """Those that live, by number."""
        names = {f"spark://Worker@{LOOPBACK}:{port}": name for name, port in self._ports.items()}
        found: dict[int, Executor] = {}
        for pid in _processes():
            words = _command(pid).split()
            options = dict(pairwise(words))
            worker = names.get(options.get("--worker-url", ""))
            # A process that it is just starting looks like the executor itself.
            if worker is not None and _EXECUTOR not in _command(_parent(pid)):
                executor = Executor(pid, int(options["--executor-id"]), worker)
                found[executor.id] = executor
        return [found[number] for number in sorted(found)]

    def stop(self) -> None:
        """Kill everything."""
        for worker in self._workers.values():
            worker.close()
        self._master.close()
        # Those whose worker was killed alone notice it by themselves.
        wait_until(lambda: not self.executors(), "all executors have ended")

    def _alive(self) -> list[int] | None:
        """The ports of the workers that the master counts on; nothing while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://{LOOPBACK}:{self._page}/json/", timeout=10
            ) as page:
                workers = json.load(page)["workers"]
        except (OSError, ValueError):
            return None
        return [worker["port"] for worker in workers if worker["state"] == "ALIVE"]

    def _spark_class(self, name: str) -> list[str]:
        home = Path(pyspark.__file__).parent
        environment = {
            "JAVA_HOME": find_java(os.environ).home,
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYTHONPATH": f"{_ROOT}:{_ROOT}/src",  # functions of tests run on executors
            "SPARK_LOCAL_DIRS": self._directory,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": quick_java(),
        }
        settings = [f"{key}={value}" for key, value in environment.items()]
        return ["env", *settings, str(home / "bin" / "spark-class"), name, "--host", LOOPBACK]


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    """Its words; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended
            found += map(int, thread.read_text().split())
    return found


def _threads(pid: int) -> set[str]:
    found: set[str] = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            found.add(thread.read_text().rstrip("\n"))
    return found


def kill(pid: int) -> None:
    """``kill -9``."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def spark_cluster(directory: Path, *workers: str) -> Iterator[SparkCluster]:
    """A running cluster; everything of it is gone at the end."""
    cluster = SparkCluster(directory)
    try:
        cluster.start(*workers)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
