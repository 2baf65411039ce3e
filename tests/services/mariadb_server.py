"""A MariaDB server that can be killed and started again on the same data."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.services.debian import installed
from tests.services.processes import LOOPBACK, free_ports, running

USER, PASSWORD, DATABASE = "hold fast", "pa:ss@wörd/%", "tests"
_numbers = count(1)


@dataclass(slots=True)
class MariaDbServer:
    """The server, up."""

    directory: Path
    port: int
    _life: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        """For the sink."""
        return f"mysql://{quote(USER)}:{quote(PASSWORD, safe='')}@{LOOPBACK}:{self.port}/{DATABASE}"

    def new_database(self) -> str:
        """An empty one; gives its URL, for a user who may do everything."""
        name = f"base{next(_numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return f"mysql://root@{LOOPBACK}:{self.port}/{name}"

    def connect(self, user: str = "root", password: str = "", **options: Any) -> Any:
        """A connection past the sink."""
        import pymysql

        return pymysql.connect(
            host=LOOPBACK, port=self.port, user=user, password=password.encode(), **options
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute; the rows of the last one."""
        connection = self.connect(database=DATABASE, autocommit=True)
        try:
            with connection.cursor() as cursor:
                # What a failed test has left locked must not stop the next one for a day.
                cursor.execute("SET time_zone = '+00:00', lock_wait_timeout = 30")
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def start(self) -> None:
        """Wait until it answers."""
        command = [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd",
            "--no-defaults",
            *(["--user=mysql"] if os.geteuid() == 0 else []),
            f"--datadir={self.directory}",
            f"--bind-address={LOOPBACK}",
            f"--port={self.port}",
            f"--socket={self.directory}/socket",
            f"--pid-file={self.directory}/pid",
            "--innodb-flush-method=fsync",  # the directory may be in memory
            "--log-bin",  # as servers with replicas have it; XA takes other ways with it
            "--server-id=1",
            "--innodb-buffer-pool-size=64M",
            "--max-allowed-packet=4M",
        ]
        self._life.enter_context(running(command, self.directory / "out", self._answers))

    def kill(self) -> None:
        """SIGKILL."""
        self._life.close()

    def _answers(self) -> bool:
        import pymysql

        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True


@contextmanager
def mariadb_server(within: Path | None = None) -> Iterator[MariaDbServer]:
    """With an empty database and a user who may do everything in it."""
    install = _installed()
    # Not below pytest's directories: those of root are closed to the user that the server runs as.
    with tempfile.TemporaryDirectory(prefix="holdfast-mariadb-", dir=within) as directory:
        home = Path(directory)
        as_user = []
        if os.geteuid() == 0:
            shutil.chown(home, "mysql")
            as_user = ["--user=mysql"]
        subprocess.run(
            [
                install,
                "--no-defaults",
                *as_user,
                f"--datadir={home}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            capture_output=True,
            check=True,
        )
        server = MariaDbServer(home, free_ports(1)[0])
        server.start()
        try:
            _set_up(server)
            yield server
        finally:
            server.kill()


def in_memory() -> Path | None:
    """A place for data that outlives a process, not a machine: tests kill only processes."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30
    return memory if roomy else None


def _set_up(server: MariaDbServer) -> None:
    connection = server.connect(autocommit=True, charset="utf8mb4")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute("CREATE USER %s@'127.0.0.1' IDENTIFIED BY %s", (USER, PASSWORD))
        cursor.execute(f"GRANT ALL ON {DATABASE}.* TO %s@'127.0.0.1'", (USER,))
        cursor.execute("CREATE DATABASE `odd.base`")
        cursor.execute("GRANT ALL ON `odd.base`.* TO %s@'127.0.0.1'", (USER,))
    connection.close()


def _installed() -> str:
    return installed(lambda: shutil.which("mariadb-install-db"), "mariadb-server", "MariaDB")
