"""The HTTP server of a runner, in a thread of its own."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.errors import EnvironmentProblem
from holdfast.server.view import JobAccess

TOKEN_VARIABLE = "HOLDFAST_TOKEN"
_GRACE_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and what it wants to see."""

    url: str
    token: str


@contextmanager
def serving(jobs: Mapping[str, JobAccess], host: str, port: int) -> Iterator[Address]:
    """Answer requests about these jobs while this lasts."""
    import uvicorn

    from holdfast.server.guard import new_token
    from holdfast.server.handlers import Handlers
    from holdfast.server.operations import Operations
    from holdfast.server.routes import application

    token = os.environ.get(TOKEN_VARIABLE) or new_token()
    handlers = Handlers(jobs, Operations())
    listening = _listen(host, port)
    config = uvicorn.Config(
        application(handlers, token),
        lifespan="off",
        ws="none",
        loop="asyncio",
        http="h11",
        log_config=None,
        access_log=False,  # it would show tokens
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True
    )
    thread.start()
    try:
        yield Address(_url(listening), token)
        if handlers.cancelled.is_set():
            # Whoever asked for the end wants to hear of it.
            handlers.end_told.wait(_GRACE_SECONDS)
    finally:
        server.should_exit = True
        thread.join(2 * _GRACE_SECONDS)
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise EnvironmentProblem(
            f"the HTTP server cannot listen: {error.strerror or error}",
            hint="Choose another rest.address or rest.port; port 0 takes any free one.",
            address=host,
            port=port,
        ) from error


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    # Who listens everywhere is also here.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
