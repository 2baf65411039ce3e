"""A real PostgreSQL on loopback, which can be killed and started again on the same data."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.services.debian import installed
from tests.services.processes import LOOPBACK, free_ports, running, wait_until

SUPERUSER = "postgres"


class PostgresServer:
    """One server and its data."""

    def __init__(self, directory: Path) -> None:
        self.port = free_ports(1)[0]
        self._directory = directory
        self._data = directory / "data"
        self._bin = installed(_find_binaries, "postgresql", "PostgreSQL server")
        self._running = ExitStack()

    def url(self, user: str = SUPERUSER, password: str = "", database: str = "postgres") -> str:
        """How a client reaches it. It trusts everybody; the password is for show."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@{LOOPBACK}:{self.port}/{database}"

    def run(self, *statements: str, url: str = "") -> list[tuple[Any, ...]]:
        """Execute, each for itself; the rows of the last one."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The URL of an empty database of its own."""
        name = f"tests_{secrets.token_hex(4)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(database=name)

    def create(self) -> None:
        """Make an empty database."""
        self._directory.chmod(0o755)
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._data, SUPERUSER)
        command = ["initdb", "-D", str(self._data), "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"]
        subprocess.run(self._as_owner([*command, "-N"]), capture_output=True, check=True)

    def start(self, prepared: int = 64) -> None:
        """Start it, with room for so many prepared transactions."""
        settings = {
            "listen_addresses": LOOPBACK,
            "port": self.port,
            "unix_socket_directories": "",
            "max_prepared_transactions": prepared,
            "timezone": "Asia/Kathmandu",  # whoever relies on the server's zone is found out
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = self._as_owner(["postgres", "-D", str(self._data), *options])
        self._running.enter_context(running(command, self._directory / "log", self._is_ready))

    def stop(self) -> None:
        """End it, gently or not: what it has promised is on disk."""
        self._running.close()
        # Its children notice by themselves that it has gone, and hold its memory until then.
        wait_until(lambda: not self._processes(), "PostgreSQL has ended")
        # It may be a zombie that nobody has buried yet, which the next one would take for alive.
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def kill(self) -> None:
        """Kill all of its processes at once, as when the machine dies."""
        for process in self._processes():
            _kill(process)
        self.stop()

    def restart(self, prepared: int = 64) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start(prepared)

    def _is_ready(self) -> bool:
        probe = [str(self._bin / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        return subprocess.run(probe, check=False).returncode == 0

    def _as_owner(self, command: list[str]) -> list[str]:
        program = [str(self._bin / command[0]), *command[1:]]
        # It refuses to run as root.
        return ["runuser", "-u", SUPERUSER, "--", *program] if os.geteuid() == 0 else program

    def _processes(self) -> list[int]:
        """All of them work in the directory of the data, also those whose parent has gone."""
        numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [number for number in numbers if _directory_of(number) == self._data]


def _find_binaries() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    anywhere = shutil.which("postgres")
    if debian:
        return debian[-1].parent
    return Path(anywhere).parent if anywhere else None


def _directory_of(process: int) -> Path | None:
    try:
        return Path(f"/proc/{process}/cwd").readlink()
    except OSError:  # it has ended, or is not ours
        return None


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@contextmanager
def postgres_server(prepared: int = 64) -> Iterator[PostgresServer]:
    """A running server with an empty database; both go away at the end."""
    with tempfile.TemporaryDirectory(prefix="holdfast-postgres-") as directory:
        server = PostgresServer(Path(directory))
        server.create()
        server.start(prepared)
        try:
            yield server
        finally:
            server.stop()
