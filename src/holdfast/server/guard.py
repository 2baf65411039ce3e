"""What every request passes first: the token, and a limit to its size."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server.problems import RequestRefused, errors

LARGEST_BODY = 1 << 20
"""Requests carry a few short fields."""

_SCHEME = "bearer "


def new_token() -> str:
    """A token for one run."""
    return secrets.token_urlsafe(32)


class Guard:
    """Lets through who shows the token, in a header or as ``?token=``."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return
        if not any(secrets.compare_digest(given, self._token) for given in _tokens(scope)):
            refusal = errors(401, "The token is missing or wrong.")
            refusal.headers["WWW-Authenticate"] = "Bearer"
            await refusal(scope, receive, send)
        elif _announced(scope) > LARGEST_BODY:
            await errors(413, "The request is too large.")(scope, receive, send)
        else:
            await self._app(scope, _limited(receive), send)


def _tokens(scope: Scope) -> list[bytes]:
    shown = [value for name, value in scope["headers"] if name == b"authorization"]
    bearers = [v[len(_SCHEME) :].strip() for v in shown if v.lower().startswith(_SCHEME.encode())]
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return bearers + [token.encode() for token in query.get("token", [])]


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def _limited(receive: Receive) -> Receive:
    """A body that comes in pieces announces no length."""
    taken = 0

    async def next_message() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            raise RequestRefused(413, "The request is too large.")
        return message

    return next_message
