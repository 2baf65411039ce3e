"""Reading what a request says: ids in its path, numbers in its query, fields in its body."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request

from holdfast.server.problems import RequestRefused

_ID = re.compile(r"[0-9a-f]{32}")


def hex_id(text: str, what: str) -> str:
    """32 hex digits."""
    if not _ID.fullmatch(text):
        raise RequestRefused(400, f"{what} must be 32 hexadecimal digits.")
    return text


def path_id(request: Request, name: str) -> str:
    """An id in the path."""
    return hex_id(request.path_params[name], name)


def path_number(request: Request, name: str) -> int:
    """A number in the path."""
    return _number(request.path_params[name], name)


def query_number(request: Request, name: str, otherwise: int) -> int:
    """A number in the query, if it is there."""
    return _number(request.query_params.get(name, str(otherwise)), name)


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RequestRefused(400, f"{name} must be a whole number.")
    return int(text)


async def body(request: Request) -> dict[str, Any]:
    """The fields of the body; none is as good as an empty one."""
    data = await request.body()
    try:
        found = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "The request is not JSON.") from error
    if not isinstance(found, dict):
        raise RequestRefused(400, "The request must be a JSON object.")
    return found


def checkpoint_is_full(fields: dict[str, Any]) -> bool:
    """What ``checkpointType`` says."""
    match fields.get("checkpointType") or "CONFIGURED":
        case "CONFIGURED":
            return False
        case "FULL":
            return True
        case "INCREMENTAL":
            raise RequestRefused(500, "checkpointType INCREMENTAL is not supported.")
    raise RequestRefused(400, "checkpointType must be CONFIGURED or FULL.")


def trigger_id(fields: dict[str, Any]) -> str | None:
    """The caller's own id for what it asks for."""
    given = fields.get("triggerId")
    return None if given is None else hex_id(str(given), "triggerId")
